// A kernel's text with its line numbers. Tab is left alone, so that the keyboard can leave; Escape goes to Run.
class Editor {
  constructor(pane) {
    this.pane = pane;
    this.form = pane.find(".editor");
    this.text = this.form.querySelector("textarea");
    this.gutter = this.form.querySelector(".gutter");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.form.querySelector(".close").addEventListener("click", () => this.close());
    this.form.querySelector(".drop").addEventListener("click", () => (pane.practice.now ? pane.practice.startOver() : pane.original()));
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("scroll", () => { this.gutter.scrollTop = this.text.scrollTop; });
    this.text.addEventListener("keydown", (event) => this.key(event));
  }

  // Open a launch's kernel in the place of the source, as the student left it; a second time, close it.
  open(launch) {
    if (!this.form.hidden) return this.close();
    const { lines, first_line: first } = this.pane.payload.trace.launches[launch], text = lines.join("\n");
    this.form.dataset.kernel = this.pane.payload.kernels[launch];
    if (text !== this.ran) this.origin = text;  // what runs is a draft of the text that ran before it
    this.show(drafts.get(this.draft) ?? text, first);
  }

  get draft() {
    return this.pane.practice.now ? this.pane.practice.draft : `kernel ${this.origin}`;
  }

  forget() {
    drafts.drop(this.draft);
    this.close();
  }

  show(text, first = 1) {
    this.first = first;
    this.form.hidden = false;
    this.form.querySelector("[type=submit]").textContent = this.pane.practice.now ? "Run and mark" : "Run";
    this.form.querySelector(".drop").textContent = this.pane.practice.now ? "Start over" : "Back to the textbook";
    this.pane.find(".source").hidden = true;
    this.text.value = text;
    this.number();
    // From the kernel on, at its first blank: what stands above it is the task once more.
    const begin = Math.max(0, text.search(/^(@.*\n)*def /m)), blank = text.indexOf("...", begin), caret = blank < 0 ? begin : blank;
    this.text.focus({ preventScroll: true });
    this.text.setSelectionRange(caret, blank < 0 ? caret : caret + 3);
    this.text.scrollTop = (text.slice(0, begin).split("\n").length - 1) * (this.text.scrollHeight / text.split("\n").length);
    this.text.scrollLeft = 0;
  }

  close() {
    const held = this.form.contains(document.activeElement);
    this.form.hidden = true;
    this.pane.find(".source").hidden = false;
    if (held) this.pane.find(".edit:not([hidden]), h3 button:not([hidden])")?.focus({ preventScroll: true });  // the keyboard stays here
  }

  run() {
    const { pane } = this;
    if (pane.practice.now) return pane.practice.mark(this.text.value);
    this.ran = this.text.value.replace(/^\n+|\n+$/g, "");
    pane.set({ ...pane.dials, edits: { ...pane.dials.edits, [this.form.dataset.kernel]: `${"\n".repeat(this.first - 1)}${this.text.value}` }, without: [], before: [] });
  }

  changed() {
    this.number();
    drafts.set(this.draft, this.text.value);
  }

  number() {
    const lines = this.text.rows = this.text.value.split("\n").length;  // so many on paper
    this.gutter.replaceChildren(...Array.from({ length: lines }, (_, k) => element("span", {}, `${k ? "\n" : ""}${k + this.first}`)));
  }

  // Mark the numbers of the lines that run, or race, where it is this text that runs.
  light(running, racing) {
    if (this.form.hidden) return;
    for (const row of this.gutter.querySelectorAll("[class]")) row.className = "";
    for (const [lines, name] of [[running, "run"], [racing, "bad"]]) {
      for (const line of lines) if (this.gutter.children[line - this.first]) this.gutter.children[line - this.first].className = name;
    }
    const [line] = racing.length ? racing : running;
    if (line) this.gutter.scrollTop = this.text.scrollTop = Math.max(0, (line - this.first - 6) * (this.text.scrollHeight / this.gutter.children.length));
  }

  key(event) {
    if (event.key === "Escape") return this.form.querySelector("[type=submit]").focus();
    const { value, selectionStart: at, selectionEnd: end } = this.text, begin = value.lastIndexOf("\n", at - 1) + 1;
    if (event.key === "Enter" && !event.ctrlKey) {
      event.preventDefault();
      const line = value.slice(begin, at);
      this.text.setRangeText(`\n${line.match(/^ */)[0]}${line.trimEnd().endsWith(":") ? "    " : ""}`, at, end, "end");
    } else if (event.ctrlKey && event.key === "]") {
      event.preventDefault();
      this.text.setRangeText("    ", begin, begin, "end");
    } else if (event.ctrlKey && event.key === "[") {
      event.preventDefault();
      this.text.setRangeText("", begin, begin + Math.min(4, value.slice(begin).match(/^ */)[0].length), "end");
    } else return;
    this.changed();
  }
}
