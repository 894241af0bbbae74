// The start screen: what a scan is, in a picture, and the rungs of the course in order.
class Start {
  constructor(app) {
    this.app = app;
    this.root = document.getElementById("start");
    this.root.querySelector(".definition").innerHTML = definition([3, 1, 7, 0, 4, 1, 6, 3]);
    const rungs = app.data.rungs.map((rung) => element("li", {},
      element("button", { type: "button", onclick: () => this.open(rung.kernel) }, element("b", {}, rung.title), element("span", {}, rung.says))));
    this.root.querySelector(".rungs").append(...rungs);
    this.root.querySelector(".begin").addEventListener("click", () => this.open(app.data.rungs[0].kernel));
    const { exercises } = app.data;
    this.root.querySelector(".live").hidden = !exercises.length;
    this.root.querySelector(".exercises").append(...exercises.map((exercise) => element("li", {},
      element("button", { type: "button", onclick: () => this.practise(exercise) }, element("b", {}, exercise.title), element("span", {}, exercise.source)))));
    for (const text of this.root.querySelectorAll("p")) app.glossary.mark(text);
  }

  get hidden() {
    return this.root.hidden;
  }

  show(on) {
    const held = this.root.contains(document.activeElement);
    this.root.hidden = !on;
    for (const id of ["transport", "panes", "hint"]) document.getElementById(id).hidden = on;
    if (held && !on) document.getElementById("panes").focus();  // where the keyboard goes on
    document.getElementById("welcome").setAttribute("aria-pressed", on);
    if (!on) this.app.redraw();
    this.app.address.remember();
  }

  async practise(exercise) {
    this.show(false);
    scrollTo(0, 0);
    await this.app.panes[0].practice.open(exercise);
  }

  async open(kernel) {
    this.show(false);
    scrollTo(0, 0);
    this.app.panes[0].practice.leave();
    await this.app.panes[0].set(this.app.panes[0].opening(kernel));
  }
}

// The items, a bar for each prefix below them, and the results: a picture of y[i] = x[0] + ... + x[i].
function definition(items) {
  const wide = 60, high = 15, parts = [], top = 40;
  let sum = 0;
  const box = (k, y, text, kind) => `<rect class="${kind}" x="${40 + k * wide + 2}" y="${y}" width="${wide - 4}" height="30" rx="4"/><text x="${40 + (k + 0.5) * wide}" y="${y + 20}" class="${kind}">${text}</text>`;
  const bottom = top + items.length * high + 12;
  items.forEach((item, k) => {
    sum += item;
    const y = top + 8 + k * high, x = 40 + (k + 0.5) * wide, picked = k === 4 ? " picked" : "";
    parts.push(box(k, 4, item, "x"), `<path class="bar${picked}" d="M46 ${y}H${x}V${bottom}"/>`, box(k, bottom, sum, `y${picked}`));
  });
  const named = `<text x="18" y="24" class="name">x</text><text x="18" y="${bottom + 20}" class="name">y</text>`;
  return `<svg viewBox="0 0 ${items.length * wide + 50} ${bottom + 58}" role="img" aria-label="The sums of the first one to eight of ${items.join(", ")}">${named}${parts.join("")}<text class="said" x="${40 + 2.5 * wide}" y="${bottom + 50}">y[4] = 3 + 1 + 7 + 0 + 4 = 15</text></svg>`;
}
