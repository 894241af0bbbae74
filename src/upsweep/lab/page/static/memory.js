// Memory as cells; a step touches only the cells that it changes.
class Memory {
  constructor(root) {
    this.box = root.querySelector(".words");
  }

  show(run) {
    this.run = run;
    this.cells = [];
    this.shown = [];
    this.marked = [];
    this.box.replaceChildren();
    const launches = run.trace.launches;
    const order = [...run.trace.arrays].sort((a, b) => (a.space === "shared") - (b.space === "shared"));
    const result = run.trace.result.first;
    order.sort((a, b) => this.rank(a, result) - this.rank(b, result));
    for (const array of order) {
      const many = array.block !== null && launches[array.launch].grid > 1;
      const title = `${array.name}<small> ${array.space}${many ? `, block ${array.block}` : ""}${launches.length > 1 && array.launch !== null ? ` of ${launches[array.launch].name}` : ""}</small>`;
      const part = document.createElement("div");
      part.className = array.size > 64 ? "array dense" : array.size > 16 ? "array" : "array few";
      part.innerHTML = `<h3>${title}</h3><div class="cells"></div>`;
      const cells = document.createDocumentFragment();
      for (let k = 0; k < array.size; k++) {
        const cell = document.createElement("div");
        cell.className = "cell void";
        cell.title = run.place(array, k);
        cell.innerHTML = "<b></b><span></span>";
        cell.children[1].textContent = k;
        this.cells[array.first + k] = cell;
        cells.append(cell);
      }
      part.lastElementChild.append(cells);
      this.box.append(part);
    }
    this.box.classList.toggle("rows", run.trace.arrays.reduce((sum, a) => sum + a.size, 0) > 700);
  }

  // x first, then what blocks share, then the rest, the result last.
  rank(array, result) {
    return array.name === "x" && array.space === "global" ? 0 : array.space === "shared" ? 1 : array.first === result ? 3 : 2;
  }

  // The words after `at` steps; `wrong` are places of the result that hold what they must not.
  light(at, wrong) {
    const state = this.run.states[at];
    for (const word of this.marked) this.cells[word]?.classList.remove("read", "written", "missed");
    this.cells.forEach((cell, word) => {
      const value = state[word];
      if (value === this.shown[word]) return;
      this.shown[word] = value;
      cell.className = value ? "cell" : "cell void";
      if (value && (value[3] || value[1] === "?")) cell.className = "cell flaw";
      cell.children[0].textContent = value ? value[1] : "";
      if (value && value[2].length) cell.children[1].textContent = spoken(value[2]);
    });
    this.marked = [];
    if (at > 0) {
      const doing = this.run.doing(at - 1);
      for (const word of doing.reads) this.mark(word, "read");
      for (const word of doing.writes) this.mark(word, "written");
    }
    for (const word of wrong) this.mark(word, "flaw");
  }

  mark(word, name) {
    this.cells[word]?.classList.add(name);
    this.marked.push(word);
  }
}
