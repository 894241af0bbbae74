// A trace as the page asks about it: memory before and after each step, who did what, and what the banks had to serve.
class Run {
  constructor(trace, across) {
    Object.assign(this, { trace, across });  // across: the width of a row, by the name of each array that is a rectangle
    this.steps = trace.steps;
    this.count = trace.steps.length;
    let words = [];
    for (const word of trace.words) words[word[0]] = word;
    this.states = [words];
    for (const step of this.steps) {
      if (step.words.length) {
        words = words.slice();
        for (const word of step.words) words[word[0]] = word;
      }
      this.states.push(words);
    }
    this.doings = this.steps.map((step) => this.watch(step));
    this.served = new Map();
  }

  // The array that a word lies in.
  owner(word) {
    return this.trace.arrays.find((a) => a.first <= word && word < a.first + a.size);
  }

  // The result's words after a number of steps, as text; null where nothing was written.
  result(at) {
    const { first, size } = this.trace.result;
    return Array.from({ length: size }, (_, k) => (this.states[at][first + k] || [])[1] ?? null);
  }

  // What happens in step k: threads by line, words read and written, threads that pass values by shuffles, each thread's work, and
  // the warps that part.
  doing(k) {
    return this.doings[k];
  }

  watch(step) {
    const lines = new Map(), reads = new Set(), writes = new Set(), passed = new Set(), threads = new Map(), turns = new Map(), parted = new Map();
    for (const [kind, block, thread, line, column, target] of step.events) {
      if (!lines.has(line)) lines.set(line, new Set());
      const id = block * 4096 + thread;
      const tests = kind === "branch" || kind === "loop";
      if (!tests) lines.get(line).add(id);
      if (kind === "load") reads.add(target);
      if (kind === "store" || kind === "atomic") writes.add(target);
      if (kind === "shuffle") passed.add(id);
      threads.set(id, Math.max(threads.get(id) || 0, tests ? 1 : kind === "op" ? 3 : 2));
      if (tests) {
        const warp = Math.floor(thread / this.trace.warp), turn = `${block} ${warp} ${line} ${column}`;
        turns.set(turn, (turns.get(turn) || 0) | (target ? 2 : 1));
        if (turns.get(turn) === 3) parted.set(turn, { block, warp, line });
      }
    }
    return { lines, reads, writes, passed, threads, parted: [...parted.values()] };
  }

  // The banks under a model: for each step the requests, wavefronts, worst degree, and the load of each bank.
  banks(model) {
    const key = JSON.stringify(model);
    if (!this.served.has(key)) this.served.set(key, this.steps.map((step) => this.serve(step, model)));
    return this.served.get(key);
  }

  serve(step, { banks, group, width, padding }) {
    const served = new Map();
    for (const [kind, block, thread, line, column, word] of step.events) {
      if (word === null || !(kind === "load" || kind === "store" || kind === "atomic")) continue;
      const array = this.owner(word);
      if (!array || array.space !== "shared") continue;
      const warp = Math.floor(thread / this.trace.warp), part = Math.floor((thread % this.trace.warp) / group);
      const request = `${block} ${line} ${column} ${kind} ${warp}`;
      if (!served.has(request)) served.set(request, { line, parts: new Map() });
      const parts = served.get(request).parts;
      if (!parts.has(part)) parts.set(part, new Set());
      const place = word - array.first, padded = padding ? place + (place >> padding) : place;
      parts.get(part).add(array.first * 65536 + Math.floor((padded * array.itemsize) / width));
    }
    const load = new Uint16Array(banks), lines = new Map();
    let wavefronts = 0, degree = 0;
    for (const { line, parts } of served.values()) {
      for (const words of parts.values()) {
        const asked = new Uint16Array(banks);
        for (const word of words) asked[(word % 65536) % banks]++;
        const worst = Math.max(...asked);
        wavefronts += worst;
        degree = Math.max(degree, worst);
        lines.set(line, Math.max(lines.get(line) || 0, worst));
        asked.forEach((count, bank) => { load[bank] = Math.max(load[bank], count); });
      }
    }
    return { requests: served.size, wavefronts, degree, load, lines };
  }

  // Two accesses that race: the steps and threads of a finding's two lines on the word that its text names, or else on another.
  collision(finding) {
    return this.meeting(finding, finding.words.slice(0, 1)) || this.meeting(finding, finding.words);
  }

  meeting(finding, names) {
    const [first, second] = finding.lines;
    const touched = new Map();
    for (const array of this.trace.arrays) {
      for (let k = 0; k < array.size; k++) if (names.includes(this.place(array, k))) touched.set(array.first + k, []);
    }
    this.steps.forEach((step, k) => {
      for (const event of step.events) {
        if (event[3] !== first && event[3] !== second) continue;
        if (event[0] === "load" || event[0] === "store" || event[0] === "atomic") touched.get(event[5])?.push([k, event]);
      }
    });
    let best = null;
    for (const [word, events] of touched) {
      for (const [i, a] of events) for (const [j, b] of events) {
        if (a[3] !== first || b[3] !== second || j < i) continue;
        if ((a[1] === b[1] && a[2] === b[2]) || (a[0] === "load" && b[0] === "load")) continue;
        if (!best || j < best.step || (j === best.step && j - i < best.gap)) best = { gap: j - i, word, a, b, step: j, from: i };
      }
    }
    return best;
  }

  // The step in which something other than a race comes about: where a wrong value was first made, or where its line first ran.
  whence(finding) {
    const { nodes } = this.trace, [line] = finding.lines, word = this.named(finding.words[0]);
    let last = null;
    this.steps.forEach((step, k) => {
      for (const event of step.events) if ((event[0] === "store" || event[0] === "atomic") && event[5] === word) last = [k, event[7]];
    });
    if (last && finding.kind === "wrong value") {
      let [step, node] = last;
      while (node !== null && nodes[node].flaw && nodes[node].step !== null) {
        step = nodes[node].step;
        node = [nodes[node].left, nodes[node].right].find((child) => child !== null && nodes[child].flaw) ?? null;
      }
      return step;
    }
    const ran = this.steps.findIndex((step) => step.lines.includes(line));
    return ran >= 0 ? ran : last ? last[0] : this.count - 1;
  }

  // The word of a name such as y[3].
  named(name) {
    for (const array of this.trace.arrays) for (let k = 0; k < array.size; k++) if (this.place(array, k) === name) return array.first + k;
    return null;
  }

  place(array, k) {
    return array.shape.length === 1 ? `${array.name}[${k}]` : `${array.name}[${Math.floor(k / array.shape[1])}, ${k % array.shape[1]}]`;
  }
}

// The first of many things that are to be heard.
function some(things) {
  return things.slice(0, 16).join("; ") + (things.length > 16 ? ` and ${things.length - 16} more` : "");
}

// x0–3 for [[0, 3]]: the inputs of a value, short enough for a cell.
function spoken(ranges) {
  return ranges.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(" ");
}
