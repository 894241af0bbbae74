// Every thread as a small square, a row for each block, a gap between warps.
class Lanes {
  constructor(root) {
    this.canvas = root.querySelector(".threads canvas");
    this.note = root.querySelector(".threads .at");
  }

  show(run) {
    this.run = run;
    this.resize();
  }

  resize() {
    if (!this.run) return;
    const { launches, warp } = this.run.trace;
    const most = Math.max(...launches.map((l) => l.block)), blocks = Math.max(...launches.map((l) => l.grid));
    this.width = this.canvas.parentElement.clientWidth - 28;
    const perRow = blocks > 1 ? most : Math.min(most, this.width > 560 ? 64 : 32);
    this.perRow = perRow;
    this.size = Math.max(2, Math.min(20, Math.floor((this.width - 34 - (perRow / warp) * 4) / perRow)));
    this.rowsEach = Math.ceil(most / perRow);
    this.blocks = blocks;
    this.step = Math.max(3, this.size + (this.size > 5 ? 3 : 1));
    const height = blocks * this.rowsEach * this.step + 2, scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    this.height = height;
    this.canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }

  light(at) {
    const pen = this.canvas.getContext("2d"), { launches, warp } = this.run.trace;
    const step = at > 0 ? this.run.steps[at - 1] : null, doing = step && this.run.doing(at - 1);
    const launch = launches[step ? step.launch : 0], side = this.size - (this.size > 5 ? 2 : 0);
    const kinds = [[], [], [], []];
    for (let block = 0; block < launch.grid; block++) {
      for (let t = 0; t < launch.block; t++) kinds[doing?.threads.get(block * 4096 + t) || 0].push([block, t]);
    }
    pen.clearRect(0, 0, this.width, this.height);
    const styles = [["--panel", "--rule"], ["--rule", "--faint"], ["--active-tint", "--active"], ["--active", "--active"]];
    kinds.forEach((threads, kind) => {
      pen.fillStyle = colour(styles[kind][0]);
      pen.strokeStyle = colour(styles[kind][1]);
      for (const [block, t] of threads) {
        const column = t % this.perRow, x = 30.5 + column * this.size + Math.floor(column / warp) * 4;
        const y = 1.5 + (block * this.rowsEach + Math.floor(t / this.perRow)) * this.step;
        pen.fillRect(x, y, side, side);
        if (this.size > 5) pen.strokeRect(x, y, side, side);
      }
    });
    this.names(pen, launch);
    const busy = kinds[2].length + kinds[3].length, all = launch.grid * launch.block;
    const parted = doing?.parted.length ? `; warp ${doing.parted[0].warp} parts in line ${doing.parted[0].line}` : "";
    this.note.textContent = step ? `${busy} of ${all} at work${parted}` : `${all} in ${launch.grid} ${launch.grid === 1 ? "block" : "blocks"}`;
  }

  names(pen, launch) {
    pen.fillStyle = colour("--soft");
    pen.font = `10px ${colour("--mono")}`;
    pen.textAlign = "left";
    const every = Math.max(1, Math.ceil(12 / (this.rowsEach * this.step)));
    if (launch.grid === 1) {
      for (let row = 0; row < this.rowsEach; row++) pen.fillText(`${row * this.perRow}`, 0, 1 + row * this.step + Math.min(this.size, 11));
    } else for (let block = 0; block < launch.grid; block += every) pen.fillText(`b${block}`, 0, 1 + block * this.rowsEach * this.step + Math.min(this.size, 11));
  }
}
