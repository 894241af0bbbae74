// One kernel on the page: its dials, its verdict, and the views that follow the steps.
class Pane {
  constructor(data, kernel, app) {
    Object.assign(this, { data, app });
    this.root = document.getElementById("pane").content.firstElementChild.cloneNode(true);
    this.find = (selector) => this.root.querySelector(selector);
    this.source = new Source(this.root, (name, line, on) => this.change(name, line, on));
    this.views = [this.network = new Network(this.root), this.memory = new Memory(this.root), this.lanes = new Lanes(this.root)];
    this.banks = new BankMap(this.root);
    this.model = { banks: 32, group: 32, padding: 0 };
    this.menu();
    this.find(".model").addEventListener("change", (e) => this.remodel({ banks: Number(e.target.value), group: Number(e.target.value) }));
    this.find(".padding").addEventListener("change", (e) => this.remodel({ padding: Number(e.target.value) }));
    this.find(".dials").addEventListener("submit", (e) => e.preventDefault());
    this.editing();
    this.dials = this.opening(kernel);
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
    const { n, op } = this.row(kernel);
    return { kernel, n, block: null, op, schedule: "ascending", without: [], before: [] };
  }

  change(name, line, on) {
    const lines = on ? [...this.dials[name], line].sort((a, b) => a - b) : this.dials[name].filter((k) => k !== line);
    return this.set({ ...this.dials, [name]: lines }, true);
  }

  dial(name, value) {
    const kept = { ...this.dials, source: undefined };
    return this.set(this.data.served ? { ...this.dials, [name]: value } : this.data.nearest(kept, name, value));
  }

  drawDials() {
    const choices = { op: this.data.operators, schedule: this.data.schedules };
    for (const slot of this.root.querySelectorAll(".slot")) {
      const name = slot.dataset.dial, now = this.dials[name];
      let field;
      if (this.data.served && (name === "n" || name === "block")) {
        field = document.createElement("input");
        Object.assign(field, { type: "number", min: 1, max: 1024, value: now ?? "", placeholder: this.payload.dials.block, disabled: this.row().fixed });
      } else {
        field = document.createElement("select");
        const given = this.data.served ? choices[name] : this.data.options(this.dials, name);
        for (const value of given.includes(now) ? given : [now, ...given]) field.append(new Option(value ?? `${this.payload.dials.block}`, value ?? "", false, value === now));
        field.disabled = given.length < 2;
      }
      field.addEventListener("change", () => this.dial(name, field.value === "" ? null : name === "n" || name === "block" ? Number(field.value) : field.value));
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
      this.editor(false);
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
    this.source.show(payload, (name, line) => this.data.has({ ...this.dials, [name]: [...this.dials[name], line].sort((a, b) => a - b) }));
    for (const view of this.views) view.show(this.run);
    this.banks.show(this.run, this.model);
    this.find(".edit").hidden = !this.data.served;
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
    this.find(".edit").addEventListener("click", () => this.editor(form.hidden));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.set({ ...this.dials, source: text.value, without: [], before: [] });
    });
    form.querySelector(".drop").addEventListener("click", () => this.set(this.opening(this.dials.kernel)));
    text.addEventListener("keydown", (event) => {
      if (event.key !== "Tab") return;
      event.preventDefault();
      text.setRangeText("    ", text.selectionStart, text.selectionEnd, "end");
    });
  }

  // The editor in the place of the source, or the source again.
  editor(open) {
    const form = this.find(".editor"), text = form.querySelector("textarea");
    form.hidden = !open;
    this.find(".source").hidden = open;
    if (!open) return;
    text.value = this.payload.trace.launches[0].lines.join("\n");
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
