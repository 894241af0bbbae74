// Banks from left to right, steps from top to bottom: how many words each bank must serve one after the other.
class BankMap {
  constructor(root) {
    this.panel = root.querySelector(".banks");
    this.canvas = root.querySelector(".banks canvas");
    this.mark = root.querySelector(".heat i");
    this.number = root.querySelector(".heat b");
    this.note = root.querySelector(".banks .at");
    this.lines = root.querySelector(".banks .lines");
  }

  show(run, model) {
    Object.assign(this, { run, model, served: run.banks(model) });
    this.panel.classList.toggle("empty", !this.total().requests);
    this.resize();
  }

  resize() {
    if (!this.run) return;
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.parentElement.clientWidth;
    this.row = Math.max(1, Math.min(12, 200 / this.run.count));
    this.height = 16 + this.row * this.run.count;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.height = `${this.height}px`;
    this.canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    this.mark.style.height = `${Math.max(3, this.row + 1)}px`;
    this.paint(this.canvas.getContext("2d"));
  }

  paint(pen) {
    const cell = (this.width - 30) / this.model.banks, gap = this.row > 4 ? 1 : 0;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = `9px ${colour("--mono")}`;
    pen.fillStyle = colour("--soft");
    pen.textAlign = "center";
    for (let bank = 0; bank < this.model.banks; bank += this.model.banks > 16 && cell < 16 ? 4 : 1) pen.fillText(bank, 30 + (bank + 0.5) * cell, 10);
    this.served.forEach(({ load }, k) => load.forEach((count, bank) => {
      pen.fillStyle = colour(count > 2 ? "--wrong" : count > 1 ? "--two" : count ? "--active" : "--field");
      pen.globalAlpha = count === 1 ? 0.75 : 1;
      pen.fillRect(30 + bank * cell, 16 + k * this.row, cell - 1, this.row - gap);
      if (count > 1 && this.row > 9 && cell > 9) {  // the number as well as the colour
        pen.fillStyle = count > 2 ? colour("--panel") : colour("--on-two");
        pen.fillText(count, 30 + (bank + 0.5) * cell, 16 + k * this.row + 8);
      }
    }));
    pen.globalAlpha = 1;
  }

  light(at) {
    const y = 15.5 + (at - 1) * this.row;
    this.mark.hidden = this.number.hidden = at === 0;
    this.mark.style.transform = `translateY(${y}px)`;
    this.number.style.transform = `translateY(${y + this.row / 2 - 6}px)`;
    this.number.textContent = at;
    this.say(at > 0 ? this.served[at - 1] : null);
  }

  say(now) {
    this.note.textContent = !this.total().requests ? "this kernel uses no shared memory" : !now ? "" : !now.requests ? "no shared access in this step"
      : `${counted(now.wavefronts, "wavefront")} for ${counted(now.requests, "request")}${now.degree > 1 ? `, worst conflict ${now.degree}-way` : ", no conflict"}`;
    const bad = now ? [...now.lines].filter(([, degree]) => degree > 1) : [];
    this.lines.innerHTML = bad.map(([line, degree]) => `<div><b>${degree}-way</b><span>line ${line}</span></div>`).join("");
  }

  total() {
    const sum = (name) => this.served.reduce((total, step) => total + step[name], 0);
    return { requests: sum("requests"), wavefronts: sum("wavefronts"), degree: Math.max(1, ...this.served.map((step) => step.degree)) };
  }
}
