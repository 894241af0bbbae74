// An exercise in a pane: its task, the editor, marks, and hints that come one by one.
class Practice {
  constructor(pane) {
    this.pane = pane;
    this.box = pane.find(".practice");
    this.box.querySelector(".hint").addEventListener("click", () => this.hint());
    this.box.querySelector(".leave").addEventListener("click", () => this.leave());
    this.now = null;
  }

  async open(exercise) {
    this.now = exercise;
    this.box.hidden = false;
    this.pane.root.dataset.practice = "posed";
    this.box.querySelector("h2 span").textContent = `Exercise ${exercise.number}: ${exercise.title}`;
    this.box.querySelector(".task").textContent = exercise.task;
    this.say([], "", []);
    await this.pane.set(this.pane.opening(exercise.kernel || "reduction"));
    this.pane.editor.show(exercise.starter);
    scrollTo(0, 0);  // the task stands above the editor, which has the focus
  }

  leave() {
    this.now = null;
    this.box.hidden = true;
    delete this.pane.root.dataset.practice;
    this.pane.find(".trouble").hidden = true;
    this.pane.editor.close();
  }

  // Mark the text, and where a run of it fails, show that at the step where it does.
  async mark(text) {
    const { pane, now } = this;
    try {
      const result = await pane.during(pane.data.ask("grade", { number: now.number, text }));
      pane.find(".trouble").hidden = true;
      this.say(result.marks, `${result.points} of ${result.of}${result.passed ? ": done!" : ""}`, result.hints);
      this.box.scrollIntoView();
      if (!result.dials) return;
      await pane.set(result.dials);
      pane.root.dataset.practice = pane.find(".trouble").hidden ? "run" : "posed";
      pane.editor.show(text);
      const finding = pane.payload.findings[0];
      if (finding) finding.kind === "race" ? pane.expose(finding) : pane.point(finding);
    } catch (problem) {
      pane.complain(problem);
    }
  }

  say(marks, total, hints) {
    this.hints = hints;
    this.given = 0;
    this.box.querySelector(".marks").replaceChildren(...marks.map((mark) => element("li", { className: mark.points < mark.of ? "lost" : "" }, `${mark.what} ${mark.points} of ${mark.of}`)));
    this.box.querySelector(".total").textContent = total;
    this.box.querySelector(".hints").replaceChildren();
    this.box.querySelector(".hint").hidden = !hints.length;
    this.label();
  }

  hint() {
    this.box.querySelector(".hints").append(element("li", {}, this.hints[this.given++]));
    this.label();
  }

  label() {
    const button = this.box.querySelector(".hint");
    button.textContent = `Hint ${Math.min(this.given + 1, this.hints.length)} of ${this.hints.length}`;
    button.disabled = this.given >= this.hints.length;
  }
}
