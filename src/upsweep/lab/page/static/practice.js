// A student's text lives as long as the tab: neither leaving it nor loading the page again loses it.
const drafts = {
  get: (name) => { try { return sessionStorage.getItem(name); } catch { return null; } },  // a browser may refuse
  set: (name, text) => { try { sessionStorage.setItem(name, text); } catch { /* it is not kept then */ } },
  drop: (name) => { try { sessionStorage.removeItem(name); } catch { /* there is none */ } },
};

// A text whose names of code stand between backticks, as nodes.
function prose(text) {
  return text.split("`").map((part, k) => (k % 2 ? element("code", {}, part) : part));
}

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
    this.show();
    this.box.querySelector("h2 span").textContent = `Exercise ${exercise.number}: ${exercise.title}`;
    this.box.querySelector(".task").replaceChildren(...prose(exercise.task));
    this.say([], "", []);
    await this.pane.set(this.pane.opening(exercise.kernel || "reduction"));
    this.pane.editor.show(drafts.get(this.draft) ?? exercise.starter);
    scrollTo(0, 0);  // the task stands above the editor, which has the focus
  }

  // What stands beside the task: nothing where no kernel is asked for, the model's network until an answer runs, then that.
  show(run = false) {
    this.pane.root.dataset.practice = run ? "run" : this.now.kernel ? "posed" : "asked";
  }

  get draft() {
    return `exercise ${this.now.number}`;
  }

  startOver() {
    drafts.drop(this.draft);
    return this.open(this.now);
  }

  leave() {
    if (!this.now) return;
    this.now = null;
    this.box.hidden = true;
    delete this.pane.root.dataset.practice;
    this.pane.find(".trouble").hidden = true;
    this.pane.editor.close();
    if (this.pane.payload) drawVerdict(this.pane);
    this.pane.app.redraw();
  }

  // Mark the text, and play a run of it: where one fails, at the step where it does.
  async mark(text) {
    const { pane, now } = this;
    drafts.set(this.draft, text);
    try {
      const result = await pane.during(pane.data.ask("grade", { number: now.number, text }));
      if (this.now !== now) return;  // the exercise was left meanwhile
      pane.find(".trouble").hidden = true;
      this.say(result.marks, `${result.points} of ${result.of}${result.passed ? ": done!" : ""}`, result.hints);
      this.box.scrollIntoView();
      if (!result.dials) return;
      await pane.set(result.dials);
      if (this.now !== now) return;
      const runs = pane.find(".trouble").hidden;
      this.show(runs);
      const finding = runs && pane.payload.findings[0];
      if (finding) finding.kind === "race" ? pane.expose(finding) : pane.point(finding);
    } catch (problem) {
      if (this.now !== now) return;
      this.say([], "", []);
      this.show();
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
    this.box.querySelector(".hints").append(element("li", {}, ...prose(this.hints[this.given++])));
    this.label();
  }

  label() {
    const button = this.box.querySelector(".hint");
    button.textContent = `Hint ${Math.min(this.given + 1, this.hints.length)} of ${this.hints.length}`;
    button.disabled = this.given >= this.hints.length;
  }
}
