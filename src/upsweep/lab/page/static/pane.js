// One kernel on the page: its dials, its verdict, and the views that follow the steps.
class Pane {
  constructor(data, dials, app) {
    Object.assign(this, { data, app });
    this.root = document.getElementById("pane").content.firstElementChild.cloneNode(true);
    this.find = (selector) => this.root.querySelector(selector);
    this.source = new Source(this.root, (name, spot, on) => this.change(name, spot, on), (launch) => this.editor(launch));
    this.views = [this.network = new Network(this.root), this.memory = new Memory(this.root), this.lanes = new Lanes(this.root)];
    this.banks = new BankMap(this.root);
    this.model = { banks: 32, group: 32, width: 4, padding: 0 };
    this.menu();
    this.find(".model").addEventListener("change", (e) => {
      const [banks, group, width] = e.target.value.split(" ").map(Number);
      this.remodel({ banks, group, width });
    });
    this.find(".padding").addEventListener("change", (e) => this.remodel({ padding: Number(e.target.value) }));
    this.find(".dials").addEventListener("submit", (e) => e.preventDefault());
    this.editing();
    this.dials = dials;
  }

  // --- dials ---

  menu() {
    const select = this.find(".kernel");
    const here = new Set(Object.keys(this.data.variants).map((key) => key.split("|")[0]));
    for (const [group, label] of [["textbook", "The textbook's kernels"], ["mistakes", "Mistakes"]]) {
      const rows = this.data.kernels.filter((row) => row.group === group && (this.data.served || here.has(row.name)));
      const options = document.createElement("optgroup");
      options.label = label;
      options.append(...rows.map((row) => new Option(row.name, row.name)));
      if (rows.length) select.append(options);
    }
    select.addEventListener("change", () => this.set(this.opening(select.value)));
  }

  row(kernel = this.dials.kernel) {
    return this.data.kernels.find((row) => row.name === kernel);
  }

  opening(kernel) {
    return this.data.opening(kernel);
  }

  // Take out, put in, or put back the barrier of a spot, which is a kernel and a line.
  change(name, spot, on) {
    return this.set(this.changed(name, spot, on), true);
  }

  changed(name, spot, on) {
    const others = this.dials[name].filter((k) => k.join() !== spot.join());
    return { ...this.dials, [name]: on ? [...others, spot].sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1])) : others };
  }

  dial(name, value) {
    return this.set(this.data.served ? { ...this.dials, [name]: value } : this.data.nearest(this.dials, name, value));
  }

  // Which dials there are: blocks start in some order where there are several; padding is the kernel's or the model's.
  offer() {
    const blocks = this.payload.trace.launches.some((launch) => launch.grid > 1), { pads } = this.row();
    for (const dial of this.root.querySelectorAll(".many-blocks")) dial.hidden = !blocks;
    this.find(".kernel-padding").hidden = !pads;
    this.find(".model-padding").hidden = pads;
    if (pads && this.model.padding) this.find(".padding").value = this.model.padding = 0;
  }

  drawDials() {
    this.offer();
    const choices = { ...this.data.choices, ...(this.row().sums ? { op: ["add"] } : {}) };
    const spoken = { block: () => this.payload.dials.block, resident: () => "all at once", padding: () => "as written" };
    for (const slot of this.root.querySelectorAll(".slot")) {
      const name = slot.dataset.dial, now = this.dials[name];
      let field;
      if (this.data.served && (name === "n" || name === "block")) {
        field = document.createElement("input");
        Object.assign(field, { type: "number", min: 1, max: 1024, value: now ?? "", placeholder: this.payload.dials.block, disabled: this.row().fixed });
      } else {
        field = document.createElement("select");
        const given = this.data.served ? choices[name] : this.data.options(this.dials, name);
        const label = (value) => (value === null ? spoken[name]() : name === "padding" ? (value > 30 ? "none" : `a + (a >> ${value})`) : value);
        for (const value of given.includes(now) ? given : [now, ...given]) field.append(new Option(label(value), value ?? "", false, value === now));
        field.disabled = given.length < 2;
      }
      field.addEventListener("change", () => this.dial(name, field.value === "" ? null : NUMBERS.has(name) ? Number(field.value) : field.value));
      slot.replaceChildren(field);
    }
  }

  remodel(part) {
    Object.assign(this.model, part);
    this.banks.show(this.run, this.model);
    this.drawCounts();
    this.app.draw();
  }

  // --- loading ---

  // Show a setting; `stay` keeps the step, and where that brings a race, shows it.
  async set(dials, stay = false) {
    const trouble = this.find(".trouble");
    this.turn = (this.turn || 0) + 1;
    const turn = this.turn;
    try {
      const payload = await this.data.payload(dials);
      if (turn !== this.turn) return;
      trouble.hidden = true;
      this.editor(null);
      this.dials = dials;
      this.payload = payload;
      this.play(payload.trace);
      const race = stay && payload.findings.find((f) => f.kind === "race");
      if (race) this.expose(race);
      else this.app.began(this, stay);
    } catch (problem) {
      trouble.textContent = problem.message;
      trouble.hidden = false;
      if (this.payload) this.drawDials();
    }
  }

  // Take a trace into all views: the payload's own, or its witness.
  play(trace, race = null) {
    this.run = new Run(trace);
    this.race = race;
    const { payload } = this;
    this.find(".kernel").value = this.dials.kernel;
    this.find(".title").textContent = this.row().title;
    this.find(".circuit").textContent = payload.circuit;
    this.source.show(payload, (name, spot) => this.data.has(this.changed(name, spot, true)), this.data.served);
    for (const view of this.views) view.show(this.run);
    this.banks.show(this.run, this.model);
    this.drawDials();
    this.drawCounts();
    drawVerdict(this);
    this.describe();
  }

  drawCounts() {
    drawCounts(this.find(".counts table"), this.payload, this.banks.total());
    this.find(".laws").textContent = `The operator must be: ${this.payload.laws}.`;
  }

  // --- races ---

  // Show a race at the step where its second access happens, under the schedule that makes it matter.
  expose(finding) {
    this.play(this.payload.witness || this.payload.trace);
    const hit = this.run.collision(finding);
    if (hit) {
      const verb = { load: "reads", store: "writes", atomic: "updates" };
      const who = ([kind, block, thread], word) => `thread ${thread} ${verb[kind]} ${word}`;
      const array = this.run.owner(hit.word), word = this.run.place(array, hit.word - array.first);
      this.race = { finding, word: hit.word, name: word, step: hit.step,
        lines: [{ line: hit.a[3], who: who(hit.a, word) }, { line: hit.b[3], who: who(hit.b, word) }] };
    }
    drawVerdict(this);
    this.app.began(this, false);
    this.app.go(hit ? hit.step + 1 : this.run.count);
  }

  // --- editing ---

  editing() {
    const form = this.find(".editor"), text = form.querySelector("textarea");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.set({ ...this.dials, edits: { ...this.dials.edits, [form.dataset.kernel]: text.value }, without: [], before: [] });
    });
    form.querySelector(".close").addEventListener("click", () => this.editor(null));
    form.querySelector(".drop").addEventListener("click", () => this.set(this.opening(this.dials.kernel)));
    text.addEventListener("keydown", (event) => {
      if (event.key !== "Tab") return;
      event.preventDefault();
      text.setRangeText("    ", text.selectionStart, text.selectionEnd, "end");
    });
  }

  // The editor of a launch's kernel in the place of the source; without a launch, or on a second click, the source again.
  editor(launch) {
    const form = this.find(".editor"), text = form.querySelector("textarea"), open = launch !== null && form.hidden;
    form.hidden = !open;
    this.find(".source").hidden = open;
    if (!open) return;
    form.dataset.kernel = this.payload.kernels[launch];
    text.value = this.payload.trace.launches[launch].lines.join("\n");
    text.focus();
    text.setSelectionRange(0, 0);
    text.scrollTop = 0;
  }

  // --- drawing ---

  light(position) {
    const at = Math.min(position, this.run.count), step = at > 0 ? this.run.steps[at - 1] : null;
    const race = this.race && this.race.step === at - 1 ? this.race : null;
    this.source.light(step, step && this.run.doing(at - 1), race && race.lines);
    const wrong = at === this.run.count ? this.wrongWords() : [];
    this.memory.light(at, race ? [...wrong, race.word] : wrong);
    this.network.light(at);
    this.lanes.light(at);
    this.banks.light(at);
    this.at = at;
    this.root.dataset.step = at;
  }

  wrongWords() {
    const { wanted } = this.payload, got = this.run.result(this.run.count), { first } = this.run.trace.result;
    return wanted ? wanted.flatMap((value, k) => (got[k] === value ? [] : [first + k])) : [];
  }

  // What tests read: the kernel, its steps, the values at the end as the cells show them, and the findings.
  describe() {
    const { dials, payload, run } = this;
    Object.assign(this.root.dataset, { kernel: dials.kernel, n: dials.n, op: dials.op, steps: run.count,
      findings: [...new Set(payload.findings.map((f) => f.kind))].join(","), schedule: run.trace.schedule });
  }

  resize() {
    if (!this.run) return;
    for (const view of [...this.views, this.banks]) view.resize();
  }
}
