// Where payloads come from: packed into this file, or from the server that opened it.
class Data {
  constructor(given) {
    Object.assign(this, given);
    this.known = new Map();
  }

  key(dials) {
    const lines = [...dials.without.map((k) => `-${k}`), ...dials.before.map((k) => `+${k}`)].join(",");
    return `${dials.kernel}|${dials.n}|${dials.block || ""}|${dials.op}|${dials.schedule}|${lines}`;
  }

  has(dials) {
    return this.served || this.key(dials) in this.variants;
  }

  async payload(dials) {
    if (dials.source) return this.ask(dials);
    const key = this.key(dials);
    if (!this.known.has(key)) this.known.set(key, await (this.served ? this.ask(dials) : this.unpack(this.variants[key])));
    return this.known.get(key);
  }

  async ask(dials) {
    const answer = await fetch("trace", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(dials) });
    const payload = await answer.json();
    if (payload.error) throw new Error(payload.error);
    return payload;
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
    const names = ["without", "before", "n", "op", "schedule", "block"];
    const score = (d) => names.filter((name) => String(d[name] ?? "") === String(wanted[name] ?? "")).length;
    const here = Object.keys(this.variants).map((key) => this.parse(key)).filter((d) => d.kernel === dials.kernel && String(d[dial]) === String(value));
    return here.sort((a, b) => score(b) - score(a))[0] || dials;
  }

  parse(key) {
    const [kernel, n, block, op, schedule, lines] = key.split("|");
    const numbers = lines ? lines.split(",").map(Number) : [];
    return { kernel, n: Number(n), block: block ? Number(block) : null, op, schedule,
      without: numbers.filter((k) => k < 0).map((k) => -k), before: numbers.filter((k) => k > 0) };
  }
}
