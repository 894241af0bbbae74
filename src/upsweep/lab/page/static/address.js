// Where the page is, kept in its address: the start, an exercise, or a kernel with its dials, its model of banks, its step and the kernel
// beside it. So a link leads there, loading again stays there, and the browser's way back works.
class Address {
  constructor(app) {
    this.app = app;
    this.known = null;
    this.timer = null;
    if (location.protocol !== "about:") addEventListener("hashchange", () => this.follow());  // a page in a notebook has no address
    else this.remember = () => {};
  }

  // The address of what is shown; null before there is anything.
  get here() {
    const { app } = this, [pane] = app.panes;
    if (!app.start.hidden) return "start";
    if (!pane?.payload) return null;
    if (pane.practice.now) return `exercise=${pane.practice.now.number}`;
    const { dials } = pane, first = pane.opening(dials.kernel), said = new URLSearchParams({ kernel: dials.kernel });
    for (const name of DIALS) if (dials[name] !== first[name]) said.set(name, dials[name] ?? "");
    for (const name of ["without", "before"]) if (dials[name].length) said.set(name, dials[name].map((spot) => spot.join(":")).join(","));
    for (const [name, menu] of Object.entries(MODEL)) if (pane.find(menu).selectedIndex) said.set(name, pane.find(menu).value);
    if (app.panes.length > 1) said.set("beside", app.panes[1].dials.kernel);
    if (app.at && !pane.race && !pane.film) said.set("step", app.at);
    return said.toString();
  }

  // What the address asks for; null where that is nothing that this page has.
  get asked() {
    const said = new URLSearchParams(location.hash.slice(1)), { data } = this.app, kernel = said.get("kernel");
    if (said.has("start")) return { start: true };
    const exercise = data.exercises.find((row) => `${row.number}` === said.get("exercise"));
    if (exercise) return { exercise };
    if (!data.kernels.some((row) => row.name === kernel)) return null;
    const dials = data.opening(kernel), spots = (name) => (said.get(name) || "").split(",").filter(Boolean).map((spot) => [spot.split(":")[0], Number(spot.split(":")[1])]);
    for (const name of DIALS) if (said.has(name)) dials[name] = !NUMBERS.has(name) ? said.get(name) : said.get(name) ? Number(said.get(name)) : null;
    const beside = data.kernels.find((row) => row.name === said.get("beside"))?.name;
    return { dials: { ...dials, without: spots("without"), before: spots("before") }, model: Object.keys(MODEL).map((name) => said.get(name)), beside, step: Number(said.get("step")) || 0 };
  }

  // Write it down once things have come to rest: another kernel is a new place to come back from, another step is not.
  remember() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { here, known } = this, place = (address) => address.split("&")[0];
      if (here === null || here === known) return;
      history[known !== null && place(here) !== place(known) ? "pushState" : "replaceState"](null, "", `#${here}`);
      this.known = here;
    }, 250);
  }

  async follow() {
    const { asked } = this;
    if (!asked) return;
    this.known = location.hash.slice(1);
    await this.arrive(asked);
  }

  async arrive({ start, exercise, dials, model, beside, step }) {
    const { app } = this, [pane] = app.panes;
    app.start.show(Boolean(start));
    if (exercise) return pane.practice.open(exercise);
    if (!dials) return;
    pane.practice.leave();
    await pane.set(dials, true);
    pane.bank(model);
    if (app.panes[1]?.dials.kernel !== beside) await app.compare(beside);
    if (!pane.race) app.go(step);
  }
}
