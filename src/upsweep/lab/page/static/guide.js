// Terms explained on hover and on focus: one tooltip, which the pointer can enter and Escape dismisses.
class Glossary {
  constructor(terms) {
    this.terms = new Map(Object.entries(terms));
    const names = [...this.terms.keys()].sort((a, b) => b.length - a.length).join("|");
    this.named = new Map(Object.keys(terms).map((name) => [name.toLowerCase(), name]));
    this.known = new RegExp(`(?<![\\w-])(?:${names})(?![\\w-])`, "i");
    this.tip = element("div", { id: "tip", role: "tooltip", hidden: true });
    document.body.append(this.tip);
    const term = (event) => event.target.closest?.(".term");
    document.addEventListener("pointerover", (event) => { if (term(event)) this.show(term(event)); else if (!this.tip.contains(event.target)) this.hide(); });
    document.addEventListener("focusin", (event) => (term(event) ? this.show(term(event)) : this.hide()));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.hide(); });
    // A term that Tab reaches may scroll the page: its tooltip goes with it.
    addEventListener("scroll", () => (this.of && this.of === document.activeElement ? this.place() : this.hide()), { passive: true });
  }

  show(term) {
    this.hide();
    this.of = term;
    term.setAttribute("aria-describedby", "tip");
    this.tip.textContent = this.terms.get(term.dataset.term);
    this.tip.hidden = false;
    this.place();
  }

  place() {
    const at = this.of.getBoundingClientRect(), { offsetWidth: wide, offsetHeight: high } = this.tip;
    const below = at.bottom + high < innerHeight;
    this.tip.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - wide - 8))}px`;
    this.tip.style.top = `${below ? at.bottom : at.top - high}px`;
  }

  hide() {
    this.of?.removeAttribute("aria-describedby");
    this.of = null;
    this.tip.hidden = true;
  }

  // Underline each term where it first stands in a part of the page.
  mark(part) {
    const seen = new Set([...part.querySelectorAll(".term")].map((term) => term.dataset.term));
    const walk = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walk.nextNode()) if (!walk.currentNode.parentElement.closest(".term, button, select, code, .slot")) texts.push(walk.currentNode);
    for (let text of texts) {
      for (let found = this.known.exec(text.data); found; found = this.known.exec(text.data)) {
        const rest = text.splitText(found.index), name = this.named.get(found[0].toLowerCase());
        text = rest.splitText(found[0].length);
        if (seen.has(name)) continue;
        seen.add(name);
        const term = element("span", { className: "term", tabIndex: 0 }, found[0]);
        term.dataset.term = name;
        rest.replaceWith(term);
      }
    }
  }
}

// What to look at: a sentence below the network for every step, and one below the verdict.
class Guide {
  constructor(pane) {
    this.pane = pane;
    this.caption = pane.find(".caption");
    for (const label of pane.root.querySelectorAll(".dials label")) pane.app.glossary.mark(label);
  }

  mark() {
    for (const part of [".verdict", ".circuit", ".counts table", ".laws", ".banks .legend"]) this.pane.app.glossary.mark(this.pane.find(part));
  }

  get rung() {
    return this.pane.data.rungs.findIndex((rung) => rung.kernel === this.pane.dials.kernel);
  }

  // The line below the verdict: what to look at next, and the next rung of the course.
  next() {
    const { pane, rung } = this, { rungs } = pane.data, line = element("div", { className: "next" }, element("span", {}, element("b", {}, "Look here: "), this.advice()));
    if (rung >= 0 && rung + 1 < rungs.length && !pane.practice.now) {
      line.append(element("button", { type: "button", textContent: `Rung ${rung + 2}: ${rungs[rung + 1].title}`, onclick: () => pane.set(pane.opening(rungs[rung + 1].kernel)) }));
    }
    return line;
  }

  advice() {
    const { pane } = this, { payload, race, film } = pane;
    if (film) return `The red line is one access to ${film.word} at a time, first in the one order, then in the other.`;
    if (race && race.lines) {
      const [first, second] = race.lines;
      const where = first.line === second.line ? `In the red line, ${first.line},` : `In the two red lines, ${first.line} and ${second.line},`;
      return `${where} ${first.who} and ${second.who}, and nothing says which comes first.${race.finding.film ? " Then play it in both orders." : ""}`;
    }
    if (payload.findings.length) {
      const { words } = payload.findings[0], lines = [...new Set(payload.findings[0].lines)];
      return `The button above goes to the step in which it happens${lines.length ? `, in line ${lines.join(" and line ")}` : words[0] ? `, to ${words[0]}` : ""}.`;
    }
    if (this.rung >= 0) return pane.data.rungs[this.rung].watch;
    if (pane.row().group === "mistakes") return this.harmless();
    return `Step through the run with →${payload.formulas.length ? ", then compare the counts with the formulas beside them" : ", and watch Memory"}.`;
  }

  // What to look at in a mistake that gives the right values.
  harmless() {
    const { pane } = this, { idle } = pane.payload.barriers, { degree } = pane.banks.total();
    const said = ["The values are right, and something else is not."];
    if (degree > 1) said.push(`Look at Banks: threads of a warp wait for one another, up to ${degree} in turn.`);
    else if (pane.payload.laws.includes("commutative")) said.push("The line below Counts says what the operator must be, which concat is not.");
    else if (idle.length) said.push(`Look at the barrier in line ${idle[0][0][1]}: its pass ${idle[0][1]} of ${idle[0][2]} is time for nothing.`);
    return said.join(" ");
  }

  // The caption of the figure after `at` steps.
  say(at) {
    if (this.pane.film) this.caption.textContent = this.scene(at);
    else this.caption.textContent = at === 0 ? this.beginning() : at === this.pane.run.count ? `${this.step(at)} ${this.ending()}` : this.step(at);
  }

  // What a picture of a film shows.
  scene(at) {
    const { film } = this.pane, { shots, word } = film, part = `Order ${film.order + 1} of 2`, { block, thread } = shots[0];
    const first = shots.some((shot) => shot.block !== block) ? `block ${block}` : `thread ${thread}`;
    if (at < 2) return `${part}: ${first} comes first to ${word}.`;
    const shot = shots[at - 2];
    if (shot) return `${part}: in line ${shot.line}, ${spokenShot(film.finding.film, shot, word)}${shot.value === "?" && shot.kind === "load" ? ", where nobody has written yet" : ""}.`;
    return `${part}: all other accesses follow, and ${ending(film)}.`;
  }

  beginning() {
    const { run } = this.pane, dots = run.trace.nodes.filter((node) => node.step !== null).length;
    if (!dots) return "No two items of x are combined here, so there is no network. Press →, and look at Memory.";
    return `Inputs at the top, results at the bottom; ${dots === 1 ? "the grey dot" : `each of the ${dots} grey dots`} will apply the operator once. Press → and see ${dots === 1 ? "when" : "which come first"}.`;
  }

  step(at) {
    const { run, network } = this.pane, nodes = network.byStep[at - 1].map((k) => run.trace.nodes[k]), doing = run.doing(at - 1);
    if (!nodes.length) return `Step ${at}: ${this.quiet(doing)}`;
    const apart = new Set(nodes.flatMap((node) => (node.left === null || run.trace.nodes[node.left].wire === null ? [] : [node.wire - run.trace.nodes[node.left].wire])));
    const flaws = nodes.filter((node) => node.flaw).length, most = Math.max(...nodes.map((node) => node.ranges.reduce((sum, [a, b]) => sum + b - a + 1, 0)));
    const one = nodes.length === 1, [distance] = apart, inputs = `${most} ${most === 1 ? "input" : "inputs"}`;
    const far = apart.size === 1 && distance > 0 ? `, ${one ? "" : "all "}of words ${distance} apart` : "";
    const held = one ? `Look at the blue one: it holds ${inputs}.` : `Look at the blue ones: they hold ${most > 1 ? "up to " : ""}${inputs}${most > 1 ? "" : " each"}.`;
    return `Step ${at}: ${nodes.length} ${one ? "dot" : "dots"}${far}. ${held}${flaws ? ` ${flaws} of them ${flaws === 1 ? "is" : "are"} red: no stretch of the input.` : ""}`;
  }

  // What happens in a step that combines no items of x.
  quiet({ reads, writes, passed, threads }) {
    const combine = [...threads.values()].filter((work) => work === 3).length, words = `${counted(reads.size, "word")} read, ${writes.size} written. Look at Memory.`;
    if (combine) return `${counted(combine, "thread")} ${combine === 1 ? "combines" : "combine"} numbers that are no items of x, such as flags, counts or identities; ${words}`;
    if (passed.size) return `${counted(passed.size, "thread")} ${passed.size === 1 ? "passes a value" : "pass values"} on by a shuffle, without memory.`;
    return reads.size + writes.size ? `data only moves; ${words}` : "no word is read or written: threads test, or wait.";
  }

  ending() {
    const { counts, wanted } = this.pane.payload, wrong = this.pane.wrongWords().length, n = this.pane.run.trace.n;
    const flawed = this.pane.run.trace.nodes.some((node) => node.flaw);
    if (wrong) return `${counted(wrong, "result")} ${wrong === 1 ? "is" : "are"} wrong: look for red in Memory${flawed ? ", then for the first red dot above" : ""}.`;
    if (!wanted) return "";
    return `All results are there, after ${counted(counts.work, "application")}${this.pane.row().sums ? "" : `; one thread needs ${n - 1}`}. Look at Counts.`;
  }
}
