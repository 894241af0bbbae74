// The network that a run builds, on three canvases: all of it in grey once, what has run, and what runs now.
class Network {
  constructor(root) {
    this.panel = root.querySelector(".net");
    this.box = root.querySelector(".canvas");
    this.ground = root.querySelector(".ground");
    this.done = root.querySelector(".done");
    this.lit = root.querySelector(".lit");
    this.tip = root.querySelector(".tip");
    this.lit.addEventListener("pointermove", (event) => this.point(event));
    this.lit.addEventListener("pointerdown", (event) => this.point(event));
    root.querySelector(".svg").addEventListener("click", () => save(new Blob([this.svg()], { type: "image/svg+xml" }), `${this.run.trace.name}.svg`));
    root.querySelector(".png").addEventListener("click", () => this.png());
  }

  show(run) {
    this.run = run;
    const ops = run.trace.nodes.filter((node) => node.step !== null);
    const levels = new Map([...new Set(ops.map((node) => node.level))].sort((a, b) => a - b).map((step, level) => [step, level + 1]));
    this.rows = levels.size;
    this.panel.classList.toggle("empty", !this.rows);
    this.byStep = run.steps.map(() => []);
    this.rowOf = (node) => (node.step === null ? 0 : levels.get(node.level));
    run.trace.nodes.forEach((node, k) => { if (node.step !== null && node.wire !== null) this.byStep[node.step].push(k); });
    this.resize();
  }

  resize() {
    if (!this.run) return;
    const width = this.box.clientWidth, n = this.run.trace.n;
    this.row = Math.max(2, Math.min(54, (width < 480 ? 220 : 400) / (this.rows + 1)));  // on a phone, the source stays in sight
    this.top = 26;
    this.height = this.top + this.rows * this.row + (this.row > 18 ? 26 : 14);
    const beside = (width - 16) / n < 32 ? 0 : 30;  // what the last wire's labels stand in
    this.gap = Math.min(64, (width - 16 - beside) / n);
    this.left = 4 + this.gap / 2 + Math.max(0, (width - 16 - beside - this.gap * n) / 2);
    this.radius = Math.max(1.1, Math.min(5, this.gap * 0.28, this.row * 0.3));
    const scale = window.devicePixelRatio || 1;
    for (const canvas of [this.ground, this.done, this.lit]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(this.height * scale);
      canvas.style.height = `${this.height}px`;
      canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    this.width = width;
    this.places = this.run.trace.nodes.map((node) => (node.wire === null ? null : [this.left + node.wire * this.gap, this.top + this.rowOf(node) * this.row]));
    this.paths = this.byStep.map((nodes) => this.path(nodes));
    this.paint();
  }

  // The edges and discs of some nodes, flawed ones apart.
  path(nodes) {
    const edges = new Path2D(), discs = new Path2D(), flaws = new Path2D();
    for (const k of nodes) {
      const node = this.run.trace.nodes[k], [x, y] = this.places[k];
      for (const child of [node.left, node.right]) {
        const from = this.places[child];
        if (!from) continue;
        edges.moveTo(from[0], from[1]);
        if (from[0] !== x) edges.lineTo(from[0], Math.max(from[1], y - this.row));
        edges.lineTo(x, y);
      }
      if (node.flaw) flaws.rect(x - 1.2 * this.radius, y - 1.2 * this.radius, 2.4 * this.radius, 2.4 * this.radius);  // a square as well as red
      else {
        discs.moveTo(x + this.radius, y);
        discs.arc(x, y, this.radius, 0, 7);
      }
    }
    return { edges, discs, flaws };
  }

  // All that never changes: wires, inputs' names, and the whole network in grey.
  paint() {
    const pen = this.ground.getContext("2d"), n = this.run.trace.n;
    pen.strokeStyle = colour("--rule");
    pen.lineWidth = this.gap < 6 ? 0.5 : 1;
    pen.beginPath();
    for (let k = 0; k < n; k++) {
      pen.moveTo(this.left + k * this.gap, this.top);
      pen.lineTo(this.left + k * this.gap, this.top + this.rows * this.row + 6);
    }
    pen.stroke();
    pen.fillStyle = colour("--soft");
    pen.font = `${this.gap < 24 ? 9 : 11}px ${colour("--mono")}`;
    pen.textAlign = "center";
    const every = [1, 2, 4, 8, 16, 32, 64, 128].find((k) => this.gap * k >= 24) || 256;
    for (let k = 0; k < n; k += every) pen.fillText(`x${k}`, this.left + k * this.gap, 14);
    pen.strokeStyle = pen.fillStyle = colour("--faint");
    pen.globalAlpha = this.gap < 16 ? 0.55 : 0.85;  // where edges are dense, their sum is dark enough
    for (const path of this.paths) {
      pen.stroke(path.edges);
      pen.fill(path.discs);
      pen.fill(path.flaws);
    }
    pen.globalAlpha = 1;
    this.drawn = 0;
    this.fresh = true;
  }

  // Light everything up to a position: what ran before in ink, where one step on adds one step; what runs now in the accent.
  light(at) {
    const done = this.done.getContext("2d"), lit = this.lit.getContext("2d"), before = Math.max(0, at - 1);
    if (before < this.drawn) {
      done.clearRect(0, 0, this.width, this.height);
      this.drawn = 0;
    }
    for (; this.drawn < before; this.drawn++) this.ink(done, this.drawn, "--done", 1.3);
    if (!this.fresh) lit.clearRect(0, 0, this.width, this.height);  // on paper, it would erase the canvases below
    this.fresh = false;
    if (at > 0) this.ink(lit, at - 1, "--active", 2);
    const made = at > 0 ? this.byStep[at - 1].map((k) => `x${spoken(this.run.trace.nodes[k].ranges)}`) : [];
    this.lit.ariaLabel = `The network that the kernel builds${made.length ? `; this step makes ${some(made)}` : ""}`;
  }

  ink(pen, step, name, wide) {
    const path = this.paths[step];
    pen.lineWidth = this.gap < 6 ? wide / 2 : wide;
    pen.strokeStyle = pen.fillStyle = colour(name);
    pen.stroke(path.edges);
    pen.fill(path.discs);
    pen.fillStyle = colour("--wrong");
    pen.fill(path.flaws);
    if (this.gap >= 30 && this.row >= 20) this.label(pen, step, name === "--done" ? "--soft" : name);
  }

  // The inputs that each node covers, where there is room.
  label(pen, step, name) {
    const room = this.gap - this.radius - 3, letter = Math.min(6, room / 5);  // 12–15 is to end before the next wire
    pen.font = `${letter / 0.6}px ${colour("--mono")}`;
    pen.textAlign = "left";
    pen.lineWidth = 3;
    pen.strokeStyle = colour("--panel");
    pen.fillStyle = colour(name);
    for (const k of this.byStep[step]) {
      const node = this.run.trace.nodes[k], [x, y] = this.places[k], text = spoken(node.ranges);
      if (text.length * letter > room + 1) continue;
      pen.strokeText(text, x + this.radius + 1, y - this.radius);
      pen.fillText(text, x + this.radius + 1, y - this.radius);
    }
  }

  point(event) {
    const frame = this.lit.getBoundingClientRect(), x = event.clientX - frame.left, y = event.clientY - frame.top;
    let best = null, far = 14;
    this.places.forEach((place, k) => {
      const away = place ? Math.hypot(place[0] - x, place[1] - y) : far;
      if (away < far) [best, far] = [k, away];
    });
    const node = best === null ? null : this.run.trace.nodes[best];
    this.tip.textContent = !node ? "" : node.step === null ? `input ${node.text} = ${node.value}`
      : `${node.text} = ${node.value}: thread ${node.thread} of block ${node.block}, line ${node.line}${node.flaw ? `, ${node.flaw}` : ""}`;
  }

  // The whole network as a drawing for slides, in the colours of a white page.
  svg() {
    const parts = [];
    for (let k = 0; k < this.run.trace.n; k++) {
      const x = this.left + k * this.gap;
      parts.push(`<path d="M${x} ${this.top}V${this.height - 12}" stroke="#d5d7d9"/><text x="${x}" y="14" text-anchor="middle">x${k}</text>`);
    }
    const discs = [];
    this.run.trace.nodes.forEach((node, k) => {
      if (node.step === null || !this.places[k]) return;
      const [x, y] = this.places[k];
      for (const child of [node.left, node.right]) {
        const from = this.places[child];
        if (from) parts.push(`<path d="M${from[0]} ${from[1]}${from[0] === x ? "" : `L${from[0]} ${Math.max(from[1], y - this.row)}`}L${x} ${y}" stroke="#4f5761" fill="none"/>`);
      }
      const r = this.radius;
      discs.push(node.flaw ? `<rect x="${x - 1.2 * r}" y="${y - 1.2 * r}" width="${2.4 * r}" height="${2.4 * r}" fill="#bf2a1a"/>` : `<circle cx="${x}" cy="${y}" r="${r}" fill="#0b62c4"/>`);
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${this.width} ${this.height}" width="${this.width}" height="${this.height}" font-family="monospace" font-size="11" fill="#646a73"><rect width="100%" height="100%" fill="#fff"/>${parts.join("")}${discs.join("")}</svg>`;
  }

  png() {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = this.width * 2;
      canvas.height = this.height * 2;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${this.run.trace.name}.png`));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.svg())}`;
  }
}

// A colour or a font of the style sheet, as the theme has it. A canvas would take a colour of the reader's system for that of a light page.
const palette = new Map();
function colour(name) {
  if (!palette.has(name)) {
    const swatch = element("i", { style: `forced-color-adjust: none; color: var(${name}); font-family: var(${name})` });
    document.body.append(swatch);
    const { color, fontFamily } = getComputedStyle(swatch);
    palette.set(name, name === "--mono" ? fontFamily : color);
    swatch.remove();
  }
  return palette.get(name);
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
