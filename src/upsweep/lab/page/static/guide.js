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
    if (rung >= 0 && rung + 1 < rungs.length) {
      line.append(element("button", { type: "button", textContent: `Rung ${rung + 2}: ${rungs[rung + 1].title}`, onclick: () => pane.set(pane.opening(rungs[rung + 1].kernel)) }));
    }
    return line;
  }

  advice() {
    const { pane } = this, { payload, race, film } = pane;
    if (film) return `The red line is one access to ${film.word} at a time, first in the one order, then in the other.`;
    if (race && race.lines) {
      const [first, second] = race.lines;
      return `In the two red lines, ${first.line} and ${second.line}, ${first.who}, ${second.who}, and nothing says which comes first. Then play it in both orders.`;
    }
    if (payload.findings.length) {
      const { lines, words } = payload.findings[0];
      return `The button above goes to the step in which it happens${lines.length ? `, in line ${lines.join(" and line ")}` : words[0] ? `, to ${words[0]}` : ""}.`;
    }
    return this.rung >= 0 ? pane.data.rungs[this.rung].watch : "Step through the network with →, then compare the counts with the formulas beside them.";
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
    return `Inputs at the top, results at the bottom; each of the ${dots} grey dots will apply the operator once. Press → and see which come first.`;
  }

  step(at) {
    const { run, network } = this.pane, nodes = network.byStep[at - 1].map((k) => run.trace.nodes[k]), { reads, writes } = run.doing(at - 1);
    if (!nodes.length) return `Step ${at} only moves data: ${reads.size} words are read and ${writes.size} written. Look at Memory.`;
    const apart = new Set(nodes.flatMap((node) => (node.left === null || run.trace.nodes[node.left].wire === null ? [] : [node.wire - run.trace.nodes[node.left].wire])));
    const flaws = nodes.filter((node) => node.flaw).length, most = Math.max(...nodes.map((node) => node.ranges.reduce((sum, [a, b]) => sum + b - a + 1, 0)));
    const one = nodes.length === 1, [distance] = apart, inputs = `${most} ${most === 1 ? "input" : "inputs"}`;
    const far = apart.size === 1 && distance > 0 ? `, ${one ? "" : "all "}of words ${distance} apart` : "";
    const held = one ? `Look at the blue one: it holds ${inputs}.` : `Look at the blue ones: they hold ${most > 1 ? "up to " : ""}${inputs}${most > 1 ? "" : " each"}.`;
    return `Step ${at}: ${nodes.length} ${one ? "dot" : "dots"}${far}. ${held}${flaws ? ` ${flaws} of them ${flaws === 1 ? "is" : "are"} red: no stretch of the input.` : ""}`;
  }

  ending() {
    const { counts, wanted } = this.pane.payload, wrong = this.pane.wrongWords().length, n = this.pane.run.trace.n;
    if (wrong) return `${wrong} results are wrong: look for red in Memory, then for the first red dot above.`;
    return wanted ? `All results are there, after ${counts.work} applications; one thread needs ${n - 1}. Look at Counts.` : "";
  }
}
