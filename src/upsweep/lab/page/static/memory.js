// Memory as cells; a step touches only the cells that it changes. A few are elements; of more than that, a browser spends the
// better part of a frame on walking through them, and they are drawn.
const ELEMENTS = 256;

class Memory {
  constructor(root) {
    this.box = root.querySelector(".words");
  }

  show(run) {
    this.run = run;
    this.cells = [];
    this.sheets = [];
    this.box.replaceChildren();
    const result = run.trace.result.first;
    this.drawn = run.trace.arrays.reduce((words, array) => words + array.size, 0) > ELEMENTS;
    const order = [...run.trace.arrays].sort((a, b) => this.rank(a, result) - this.rank(b, result));
    for (const array of order) this.box.append(this.part(array));
    this.forget();
    this.resize();
  }

  // x first, then what blocks share, then the rest, the result last.
  rank(array, result) {
    return array.name === "x" && array.space === "global" ? 0 : array.space === "shared" ? 1 : array.first === result ? 3 : 2;
  }

  part(array) {
    const { launches } = this.run.trace, part = document.createElement("div"), title = document.createElement("h3");
    const many = array.block !== null && launches[array.launch].grid > 1;
    title.innerHTML = `${array.name}<small> ${array.space === "global" ? "global" : many ? `block ${array.block}` : "shared"}</small>`;
    const across = this.across(array);
    part.className = array.size > 16 && !across ? "array" : across ? "array few rows" : "array few";
    part.style.setProperty("--size", across || Math.min(array.size, 16));
    part.style.setProperty("--narrow", across > 8 && across % 2 === 0 ? across / 2 : across);  // on a phone, half a row of many
    part.setAttribute("role", "group");
    part.title = `${array.name}, ${array.space}${array.launch !== null ? `, ${launches[array.launch].name}` : ""}`;
    const holder = this.drawn ? new Sheet(array, across) : new Cells(array, this.run);
    if (this.drawn) this.sheets.push(holder);
    for (let k = 0; k < array.size; k++) this.cells[array.first + k] = holder;
    part.append(title, holder.root);
    return part;
  }

  // The words of a row, where an array is a rectangle of at most 16.
  across(array) {
    const wide = array.space === "global" ? this.run.across[array.name] : array.shape.length === 2 ? array.shape[1] : 0;
    return wide > 1 && wide <= 16 ? wide : 0;
  }

  forget() {
    this.shown = [];
    this.keys = [];
  }

  resize() {
    if (!this.run) return;
    const widths = this.sheets.map((sheet) => sheet.root.parentElement.clientWidth), all = this.box.clientWidth;
    this.sheets.forEach((sheet, k) => sheet.resize(widths[k], all > 900 ? 32 : all > 480 ? 16 : 8));
    if (this.sheets.length) this.forget();
  }

  // The words after `at` steps; `wrong` are places of the result that hold what they must not.
  light(at, wrong) {
    const state = this.run.states[at], bad = new Set(wrong), doing = at > 0 ? this.run.doing(at - 1) : null;
    this.cells.forEach((holder, word) => {
      const value = state[word], mark = !doing ? "" : doing.writes.has(word) ? "written" : doing.reads.has(word) ? "read" : "";
      const flaw = bad.has(word) || Boolean(value && (value[3] || value[1] === "?")), key = flaw ? `${mark} flaw` : mark;
      if (value === this.shown[word] && key === this.keys[word]) return;
      this.shown[word] = value;
      this.keys[word] = key;
      holder.put(word, value, mark, flaw);
    });
    for (const sheet of this.sheets) sheet.write();
  }
}

// What a cell says below its value: the inputs that this is made of, or its place.
function below(value, place) {
  return value && value[2].length ? spoken(value[2]) : `${place}`;
}

// What is said of a word.
function heard(value, mark, flaw) {
  return ` = ${value[1]}${value[2].length ? `, made of x${spoken(value[2])}` : ""}${mark ? `, ${mark}` : ""}${flaw ? ", wrong" : ""}`;
}

class Cells {
  constructor(array, run) {
    this.first = array.first;
    this.root = document.createElement("div");
    this.root.className = "cells";
    for (let k = 0; k < array.size; k++) {
      const cell = document.createElement("div");
      cell.dataset.place = cell.title = run.place(array, k);
      cell.setAttribute("role", "img");
      cell.innerHTML = `<b> </b><span>${k}</span>`;
      this.root.append(cell);
    }
  }

  put(word, value, mark, flaw) {
    const place = word - this.first, cell = this.root.children[place];
    const made = below(value, place), text = value ? value[1] : " ";
    cell.className = `cell ${value ? "" : "void "}${mark}${flaw ? " flaw" : ""}`;
    const [upper, lower] = [cell.firstChild.firstChild, cell.lastChild.firstChild];
    if (upper.data !== text) upper.data = text;
    if (lower.data !== made) lower.data = made;
    cell.title = `${cell.dataset.place}${value ? heard(value, mark, flaw) : ""}`;
  }
}

class Sheet {
  constructor(array, across) {
    Object.assign(this, { across, first: array.first, size: array.size, high: 31, values: [], places: [], written: [] });
    this.root = document.createElement("canvas");
    this.root.setAttribute("role", "img");
    this.name = array.name;
  }

  resize(width, most) {
    const scale = window.devicePixelRatio || 1;
    this.columns = this.across || (this.size > 16 ? most : Math.min(this.size, most));
    this.wide = (width + 2) / this.columns;
    this.snap = (length) => Math.round(length * scale) / scale;  // to pixels of the screen: half a pixel is not cleared
    const height = Math.ceil(this.size / this.columns) * this.high - 2;
    this.root.width = Math.round(width * scale);
    this.root.height = Math.round(height * scale);
    this.root.style.cssText = `display:block;width:100%;height:${height}px`;
    this.pen = this.root.getContext("2d");
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.textAlign = "center";
  }

  put(word, value, mark, flaw) {
    const place = word - this.first, { pen, wide, high, snap } = this, column = place % this.columns, row = Math.floor(place / this.columns);
    const x = snap(column * wide), y = snap(row * high), w = snap((column + 1) * wide - 2) - x, h = snap((row + 1) * high - 2) - y;
    const solid = mark === "written";
    pen.clearRect(x, y, w, h);
    pen.globalAlpha = value ? 1 : 0.45;
    pen.fillStyle = colour(solid ? (flaw ? "--wrong" : "--active") : flaw ? "--wrong-tint" : "--field");
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    if (flaw) {
      pen.fillStyle = colour(solid ? "--panel" : "--wrong");
      pen.beginPath();
      pen.moveTo(x + w, y);
      pen.lineTo(x + w, y + 8);
      pen.lineTo(x + w - 8, y);
      pen.fill();
    }
    if (mark === "read") {
      pen.strokeStyle = colour("--active");
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
    const tone = solid ? "--panel" : flaw ? "--wrong" : null;
    if (solid) this.written.push(`${this.name}[${place}]${heard(value, "", flaw)}`);
    if (value) this.values.push([value[1], x + w / 2, y + 13, tone || "--ink"]);
    this.places.push([below(value, place), x + w / 2, y + 24, tone || "--soft"]);
  }

  // All texts of a step, one font after the other: to change it for every word costs more than to write the word.
  write() {
    this.texts(this.values, `600 10.5px ${colour("--mono")}`, 6.4);
    this.texts(this.places, `8px ${colour("--mono")}`, 4.9);
    this.root.ariaLabel = `${this.size} words of ${this.name}${this.written.length ? `, written: ${some(this.written)}` : ""}`;
    this.values = [];
    this.places = [];
    this.written = [];
  }

  texts(texts, font, letter) {
    if (texts.length) this.pen.font = font;
    for (const [text, x, y, tone] of texts) {
      this.pen.fillStyle = colour(tone);
      if (text.length * letter < this.wide - 4) this.pen.fillText(text, x, y);
      else this.pen.fillText(text, x, y, this.wide - 4);
    }
  }
}
