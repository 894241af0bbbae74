// Dials that are written where anything can be traced; elsewhere a few settings are there to be chosen.
const TYPED = {
  n: { type: "number", min: 1, max: 1024 }, block: { type: "number", min: 1, max: 1024 },
  x: { type: "text", placeholder: "1 2 3 …", className: "wide" }, own: { type: "text", className: "wide", spellcheck: false },
  identity: { type: "text", placeholder: "none" },
};

// The model of the banks: the menus, by their names in an address.
const MODEL = { banks: ".model", padded: ".padding" };

// One kernel on the page: its dials, its verdict, and the views that follow the steps.
class Pane {
  constructor(data, dials, app) {
    Object.assign(this, { data, app });
    this.root = document.getElementById("pane").content.firstElementChild.cloneNode(true);
    this.find = (selector) => this.root.querySelector(selector);
    this.source = new Source(this.root, (name, spot, on) => this.change(name, spot, on), (launch) => this.editor.open(launch));
    this.views = [this.network = new Network(this.root), this.memory = new Memory(this.root), this.lanes = new Lanes(this.root)];
    this.banks = new BankMap(this.root);
    this.model = { banks: 32, group: 32, width: 4, padding: 0 };
    this.menu();
    for (const menu of Object.values(MODEL)) this.find(menu).addEventListener("change", () => this.remodel());
    this.find(".dials").addEventListener("submit", (e) => e.preventDefault());
    this.find(".stop").addEventListener("click", () => this.data.engine.stop());
    this.editor = new Editor(this);
    this.practice = new Practice(this);
    this.guide = new Guide(this);
    this.dials = dials;
  }

  // --- dials ---

  menu() {
    const select = this.find(".kernel");
    const here = new Set(Object.keys(this.data.variants).map((key) => key.split("\n")[0]));
    for (const [group, label] of [["yours", "Yours"], ["textbook", "The textbook's kernels"], ["mistakes", "Mistakes"]]) {
      const rows = this.data.kernels.filter((row) => row.group === group && (this.data.live || here.has(row.name)));
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

  // The kernel as it was printed, without what the student did to it.
  original() {
    this.editor.forget();
    return this.set(this.opening(this.dials.kernel));
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
    const wanted = { ...this.dials, [name]: value }, words = name === "x" ? value.split(/[\s,]+/).filter(Boolean).length : 0;
    if (words) wanted.n = words;
    if (wanted.op === "own" && !wanted.own) wanted.own = "b if b else a";
    return this.set(this.data.live ? wanted : this.data.nearest(this.dials, name, value));
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
    const held = document.activeElement.closest(".slot");
    const choices = { ...this.data.choices, ...(this.row().sums ? { op: ["add"] } : {}) };
    for (const slot of this.root.querySelectorAll(".slot")) {
      const name = slot.dataset.dial, field = this.data.live && TYPED[name] ? this.typed(name) : this.chosen(name, choices);
      field.addEventListener("change", () => this.dial(name, field.value === "" && NUMBERS.has(name) ? null : NUMBERS.has(name) ? Number(field.value) : field.value));
      slot.replaceChildren(field);
    }
    for (const dial of this.root.querySelectorAll(".own-operator")) dial.hidden = this.dials.op !== "own" || !this.data.live;
    if (this.root.contains(held)) held.firstChild.focus({ preventScroll: true });  // the keyboard stays here
  }

  typed(name) {
    const field = element("input", { ...TYPED[name], value: this.dials[name] ?? "", disabled: this.row().fixed });
    if (name === "block") field.placeholder = this.payload.dials.block;
    if (name === "x") field.setAttribute("list", "examples");
    return field;
  }

  chosen(name, choices) {
    const now = this.dials[name], given = this.data.live ? choices[name] || [now] : this.data.options(this.dials, name);
    const spoken = { block: () => this.payload.dials.block, resident: () => "all at once", padding: () => "as written" };
    const label = (value) => (value === null ? spoken[name]() : name === "padding" ? (value > 30 ? "none" : `a + (a >> ${value})`)
      : name === "x" && !value ? "1 2 3 …" : name === "op" && value === "own" ? "your own" : value);
    const field = element("select", { disabled: given.length < 2 || (this.row().fixed && this.data.live) });
    for (const value of given.includes(now) ? given : [now, ...given]) field.append(new Option(label(value), value ?? "", false, value === now));
    return field;
  }

  // Choose a model of banks by the values of its menus; where there is no such choice, the first.
  bank(values) {
    Object.values(MODEL).forEach((name, k) => {
      const menu = this.find(name), at = [...menu.options].findIndex((option) => option.value === values[k]);
      menu.selectedIndex = Math.max(0, at);
    });
    this.remodel();
  }

  remodel() {
    const [banks, group, width] = this.find(".model").value.split(" ").map(Number);
    this.model = { banks, group, width, padding: Number(this.find(".padding").value) };
    this.banks.show(this.run, this.model);
    this.drawCounts();
    this.app.draw();
  }

  // --- loading ---

  // Show a setting; `stay` keeps the step, and where that brings a race, shows it.
  async set(dials, stay = false) {
    const turn = this.turn = (this.turn || 0) + 1;
    try {
      const payload = await this.during(this.data.payload(dials));
      if (turn !== this.turn) return;
      this.find(".trouble").hidden = true;
      if (!this.practice.now) this.editor.close();  // whoever is marked may be typing on
      this.dials = dials;
      this.payload = payload;
      this.play(payload.trace);
      const race = stay && payload.findings.find((f) => f.kind === "race");
      if (race) this.expose(race);
      else this.app.began(this, stay);
    } catch (problem) {
      this.complain(problem);
      if (this.payload) this.drawDials();
    }
  }

  complain(problem) {
    this.find(".trouble").textContent = problem.message;
    this.find(".trouble").hidden = false;
  }

  // Say how long something has been running, from a sixth of a second on.
  async during(promise) {
    const box = this.find(".busy"), began = performance.now();
    this.root.ariaBusy = "true";
    const timer = setInterval(() => {
      const gone = performance.now() - began;
      box.hidden = gone < 160;
      box.firstChild.data = `Running for ${(gone / 1000).toFixed(1)} s … `;
    }, 80);
    try {
      return await promise;
    } finally {
      clearInterval(timer);
      box.hidden = true;
      this.root.ariaBusy = "false";
    }
  }

  // Take a trace into all views: the payload's own, its witness, or an order of a film.
  play(trace, film = null) {
    this.run = new Run(trace, this.payload.across);
    this.race = null;
    this.film = film;
    this.root.classList.toggle("filmed", film !== null);
    const { payload } = this;
    this.find(".kernel").value = this.dials.kernel;
    this.find(".title").textContent = this.row().title;
    this.find(".circuit").textContent = payload.circuit;
    this.source.show(payload, (name, spot) => this.data.has(this.changed(name, spot, true)), this.data.live);
    for (const view of this.views) view.show(this.run);
    this.banks.show(this.run, this.model);
    this.drawDials();
    this.drawCounts();
    drawVerdict(this);
    this.guide.mark();
    this.describe();
  }

  drawCounts() {
    drawCounts(this.find(".counts table"), this.payload, this.banks.total());
    this.find(".laws").textContent = lawful(this.payload.laws, this.row().sums);
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

  // Show one of a film's two orders, at one of its pictures.
  roll(finding, order, at = 0) {
    this.play(finding.film.orders[order].trace, { finding, order, ...finding.film.orders[order], word: finding.film.word });
    this.app.go(at);
  }

  // Play a film from its first order on.
  screen(finding) {
    this.app.pause();
    this.roll(finding, 0);
    this.find(innerWidth > 900 ? ".film" : ".code").scrollIntoView();  // the strip and the source below it, or that alone
    this.app.toggle();
  }

  // Show any other finding at the step where it comes about.
  point(finding) {
    this.app.go(1 + this.run.whence(finding));
  }

  // --- drawing ---

  light(position) {
    const at = Math.min(position, this.run.count), step = at > 0 ? this.run.steps[at - 1] : null;
    const race = this.race && this.race.step === at - 1 ? this.race : this.shot(at);
    this.source.light(step, step && this.run.doing(at - 1), race && race.lines);
    const wrong = at === this.run.count ? this.wrongWords() : [];
    const launch = step && this.run.trace.launches[step.launch];
    if (launch && this.editor.text.value.includes(launch.lines.join("\n"))) this.editor.light(step.lines, race ? race.lines.map((one) => one.line) : []);
    this.memory.light(at, race ? [...wrong, race.word] : wrong);
    this.network.light(at);
    this.lanes.light(at);
    this.banks.light(at);
    this.guide.say(at);
    this.find(".verdict .now")?.classList.remove("now");
    if (this.film) this.find(`.film li:nth-child(${this.film.order + 1})`)?.children[at - 2]?.classList.add("now");
    this.at = at;
    this.root.dataset.step = at;
  }

  // The picture of a film after `at` steps, as a race is shown: its word, and its line with who runs it.
  shot(at) {
    const shot = this.film?.shots[at - 2];
    return shot ? { word: this.run.steps[at - 1].events[0][5], lines: [{ line: shot.line, who: spokenShot(this.film.finding.film, shot, this.film.word) }] } : null;
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
