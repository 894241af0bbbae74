// What makes a setting, in the order of a key.
const DIALS = ["kernel", "n", "block", "op", "x", "own", "identity", "schedule", "resident", "issue", "padding"];
const NUMBERS = new Set(["n", "block", "resident", "padding"]);

// The server that opened this page answers questions, and can be told to stop.
class Server {
  async ask(name, given) {
    const gone = { error: "upsweep lab no longer answers: start it again in the terminal, and open the address that it prints" };
    const question = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(given) };
    return fetch(name, question).then((answer) => answer.json()).catch(() => gone);
  }

  stop() {
    return fetch("stop", { method: "POST" });
  }
}

// Python inside this page, in a thread of its own, which is ended to stop it and started anew.
class Inside {
  constructor(parts) {
    this.parts = parts;
    this.waiting = new Map();
    this.asked = 0;
    this.ask("ready", {}).then(({ error }) => { document.documentElement.dataset.python = error || "ready"; });
  }

  ask(name, given) {
    const parts = this.worker ? undefined : this.parts, id = this.asked++;
    if (!this.worker) {
      const text = new Blob([document.getElementById("worker").textContent], { type: "text/javascript" });
      this.worker = new Worker(URL.createObjectURL(text));
      this.worker.onmessage = ({ data }) => this.answered(data.id, data.answer);
      this.worker.onerror = (event) => this.end(`Python does not start here: ${event.message}`);
    }
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({ id, name, given: JSON.stringify(given), parts });
    });
  }

  answered(id, answer) {
    this.waiting.get(id)?.(JSON.parse(answer));
    this.waiting.delete(id);
  }

  stop() {
    this.end("stopped: nothing of this run is kept");
  }

  end(error) {
    this.worker.terminate();
    this.worker = null;
    for (const id of [...this.waiting.keys()]) this.answered(id, JSON.stringify({ error }));
  }
}

// Where payloads come from: packed into this file, or traced when they are asked for.
class Data {
  constructor(given) {
    Object.assign(this, given);
    this.known = new Map();
    this.engine = given.served ? new Server() : given.python ? new Inside(given.python) : null;
    this.live = this.engine !== null;
  }

  key(dials) {
    const spots = [...dials.without.map((k) => `-${k.join(":")}`), ...dials.before.map((k) => `+${k.join(":")}`)].join(",");
    return [...DIALS.map((name) => dials[name] ?? ""), spots].join("\n");
  }

  opening(kernel) {
    return { ...this.kernels.find((row) => row.name === kernel).first };
  }

  has(dials) {
    return this.live || this.key(dials) in this.variants;
  }

  async payload(dials) {
    if (Object.keys(dials.edits).length) return this.ask("trace", dials);
    const key = this.key(dials);
    if (!this.known.has(key)) this.known.set(key, await (key in this.variants || !this.live ? this.unpack(this.variants[key]) : this.ask("trace", dials)));
    return this.known.get(key);
  }

  async ask(name, given) {
    const answer = await this.engine.ask(name, given);
    if (answer.error) throw new Error(answer.error);
    return answer;
  }

  async unpack(packed) {
    if (!packed) throw new Error("This file holds no such run; `upsweep lab` traces any.");
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  // What a dial can be set to here, all else kept as far as this file allows.
  options(dials, dial) {
    const here = Object.keys(this.variants).map((key) => this.parse(key)).filter((d) => d.kernel === dials.kernel);
    return [...new Set(here.map((d) => d[dial]))];
  }

  // The variant with this dial and as many of the others as possible.
  nearest(dials, dial, value) {
    const wanted = { ...dials, [dial]: value };
    if (this.has(wanted)) return wanted;
    const names = ["without", "before", ...DIALS];
    const score = (d) => names.filter((name) => String(d[name] ?? "") === String(wanted[name] ?? "")).length;
    const here = Object.keys(this.variants).map((key) => this.parse(key)).filter((d) => d.kernel === dials.kernel && String(d[dial]) === String(value));
    return here.sort((a, b) => score(b) - score(a))[0] || dials;
  }

  parse(key) {
    const values = key.split("\n"), spots = (values.pop() || "").split(",");
    const dials = Object.fromEntries(DIALS.map((name, k) => [name, !NUMBERS.has(name) ? values[k] : values[k] === "" ? null : Number(values[k])]));
    const at = (sign) => spots.filter((k) => k[0] === sign).map((k) => [k.slice(1, k.lastIndexOf(":")), Number(k.slice(k.lastIndexOf(":") + 1))]);
    return { ...dials, without: at("-"), before: at("+"), edits: {} };
  }
}
