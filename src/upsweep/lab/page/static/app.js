const SENTENCE = 3;  // a picture of a film is a sentence to read: it stays so many times as long as a step

// The page: panes that share one clock.
class App {
  constructor(data) {
    this.data = data;
    this.panes = [];
    this.at = 0;
    this.timer = null;
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("home", () => this.go(0));
    on("back", () => this.go(this.at - 1));
    on("next", () => this.go(this.at + 1));
    on("play", () => this.toggle());
    on("theme", () => this.theme());
    on("compare", () => this.compare(this.panes.length > 1 ? null : data.beside[this.panes[0].dials.kernel] || data.beside[""]));
    this.glossary = new Glossary(data.glossary);
    this.start = new Start(this);
    this.address = new Address(this);
    on("welcome", () => this.start.show(this.start.hidden));
    this.slider = document.getElementById("slider");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    document.addEventListener("keydown", (event) => this.key(event));
    let width = 0;
    new ResizeObserver(() => {
      if (width === document.body.clientWidth) return;
      width = document.body.clientWidth;
      this.redraw();
    }).observe(document.body);
    for (const look of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "print"]) matchMedia(look).addEventListener("change", () => this.repaint());
  }

  // Open at what the address asks for; where that cannot be traced, at the page's own beginning, with the reason.
  async begin() {
    const { asked } = this.address;
    this.start.show(asked ? Boolean(asked.start) : this.data.welcome);
    const pane = await this.open(asked?.dials || this.data.start);
    // A kernel that is chosen before the address has been written down has this place to come back to, too.
    if (asked && pane.payload) this.address.known ??= location.hash.slice(1);
    if (pane.payload) return asked && this.address.arrive(asked);
    const reason = pane.find(".trouble").textContent;
    await pane.set(this.data.start);
    if (asked?.dials) pane.complain({ message: reason });
  }

  async open(dials) {
    const pane = new Pane(this.data, dials, this);
    this.panes.push(pane);
    document.getElementById("panes").append(pane.root);
    await pane.set(pane.dials);
    return pane;
  }

  // Put a kernel beside the first one in the place of the one that is there; none takes that away.
  async compare(kernel) {
    const button = document.getElementById("compare");
    while (this.panes.length > 1) this.panes.pop().root.remove();
    if (kernel) await this.open(this.data.opening(kernel));
    document.getElementById("panes").classList.toggle("two", this.panes.length > 1);
    button.setAttribute("aria-pressed", this.panes.length > 1);
    this.redraw();
  }

  get last() {
    return Math.max(...this.panes.map((pane) => (pane.run ? pane.run.count : 0)));
  }

  // A pane has a new trace: from its beginning, or at the step where the old one was.
  began(pane, stay) {
    this.pause();
    if (!stay && this.panes[0] === pane) this.at = 0;
    this.draw();
  }

  // The pane that plays a film, if any.
  get reel() {
    return this.panes.find((pane) => pane.film);
  }

  // A film's first order goes on into its second, and the second back into the first.
  go(position) {
    const { reel } = this, order = reel?.film.order;
    if (order === 0 && position > this.last) return reel.roll(reel.film.finding, 1);
    if (order === 1 && position < 0) {
      reel.roll(reel.film.finding, 0);
      return this.go(this.last);
    }
    this.at = Math.max(0, Math.min(position, this.last));
    if (this.at === this.last && order !== 0) this.pause();
    this.draw();
  }

  draw() {
    this.at = Math.min(this.at, this.last);
    for (const pane of this.panes) if (pane.run) pane.light(this.at);
    this.slider.max = this.last;
    this.slider.value = this.at;
    this.slider.ariaValueText = `step ${this.at} of ${this.last}`;
    document.getElementById("where").textContent = `${this.reel ? `order ${this.reel.film.order + 1}: ` : "step "}${this.at} / ${this.last}`;
    document.documentElement.dataset.step = this.at;
    this.address.remember();
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.at === this.last && this.reel?.film.order === 1) this.reel.roll(this.reel.film.finding, 0);
    else if (this.at === this.last && !this.reel) this.at = 0;
    let before = 0;
    const frame = (now) => {
      if (now - before >= (this.reel ? SENTENCE : 1) * Number(document.getElementById("speed").value)) {
        before = now;
        this.go(this.at + 1);
      }
      if (this.timer) this.timer = requestAnimationFrame(frame);
    };
    this.timer = requestAnimationFrame(frame);
    this.label();
  }

  pause() {
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.label();
  }

  label() {
    const play = document.getElementById("play");
    play.textContent = this.timer ? "❚❚ Pause" : "▶ Play";
    play.ariaLabel = this.timer ? "Pause" : "Play";
    // What plays goes on faster than it can be read aloud.
    for (const caption of document.querySelectorAll(".caption")) caption.ariaLive = this.timer ? "off" : "polite";
  }

  key(event) {
    const { tagName } = event.target, sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    // A menu takes up and down, home and end; left and right step, also right after a kernel was chosen.
    if (tagName === "SELECT" ? !sideways : /^(INPUT|TEXTAREA)$/.test(tagName) && event.target !== this.slider) return;
    if (event.ctrlKey || event.metaKey || event.altKey || !this.start.hidden) return;
    const act = { ArrowLeft: () => this.go(this.at - 1), ArrowRight: () => this.go(this.at + 1), Home: () => this.go(0), End: () => this.go(this.last), " ": () => this.toggle() }[event.key];
    if (!act || (event.key === " " && /^(BUTTON|SUMMARY)$/.test(tagName))) return;
    event.preventDefault();
    act();
  }

  theme() {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.repaint();
  }

  // After a change of colours or of width.
  repaint() {
    palette.clear();
    this.redraw();
  }

  redraw() {
    for (const pane of this.panes) pane.resize();
    if (this.panes.some((pane) => pane.run)) this.draw();
  }
}

const data = new Data(JSON.parse(document.getElementById("data").textContent));
const lab = new App(data);
lab.begin().then(() => { document.documentElement.dataset.ready = "yes"; });
