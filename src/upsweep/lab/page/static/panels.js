// The verdict above the source, and the counts beside their formulas.
function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function drawVerdict(pane) {
  const box = pane.find(".verdict"), { payload, dials } = pane, held = box.contains(document.activeElement);
  box.replaceChildren();
  const order = leading(pane);
  if (order.length) box.append(findingCard(pane, order[0]));
  if (order.length > 1) {
    const rest = order.slice(1).map((finding) => findingCard(pane, finding));
    box.append(element("details", { className: "more" }, element("summary", {}, `and ${rest.length} more`), ...rest));
  }
  if (payload.findings.length) box.append(...remedy(pane));
  else {
    const invitation = temptation(pane);
    const values = payload.wanted ? " Every value is right, every word was written before it was read." : "";
    const idle = payload.barriers.idle.map(([[, line], pass, of]) => ` The barrier in line ${line} separates nothing in pass ${pass} of ${of}.`).slice(0, 1).join("");
    const spare = payload.barriers.redundant.map(([, line]) => ` The barrier in line ${line} can go, ${payload.barriers.tried}.`).join("");
    const here = payload.barriers.elsewhere.map(([[, line], n]) => ` For this n the barrier in line ${line} could go, but n = ${n} needs it.`).join("");
    const larger = payload.barriers.racing === null ? "" : ` But for n = ${payload.barriers.racing} there is a race. ${mending(payload.barriers, "it")}`;
    box.append(element("div", { className: "fine" }, element("span", {}, element("b", {}, "No race."), values + (spare || idle) + here + larger), ...(invitation ? [invitation] : [])));
  }
  if (!pane.practice.now && (dials.without.length || dials.before.length || Object.keys(dials.edits).length)) {
    box.querySelector(":scope > :last-child").append(element("button", { type: "button", textContent: "Back to the original", onclick: () => pane.original() }));
  }
  box.append(pane.guide.next());
  if (held) (box.querySelector(".roll") || box.querySelector("button"))?.focus({ preventScroll: true });  // the keyboard stays here
}

// What is being shown first, then causes before what follows from them, as the report has them.
function leading(pane) {
  const rank = (finding) => (pane.race && pane.race.finding === finding ? 0 : finding.follows ? 2 : 1);
  return [...pane.payload.findings].sort((a, b) => rank(a) - rank(b));
}

function findingCard(pane, finding) {
  const card = element("div", { className: "finding" }, element("b", {}, finding.follows ? `So, ${finding.kind}` : finding.kind[0].toUpperCase() + finding.kind.slice(1)));
  if (finding.kind === "race") {
    const shown = pane.race && pane.race.finding === finding;
    card.append(element("button", { type: "button", className: shown ? "on-wrong" : "on-wrong show", textContent: shown ? "shown below" : "Show the race", disabled: shown, onclick: () => pane.expose(finding) }));
  }
  else card.append(element("button", { type: "button", className: "on-wrong point", textContent: "Show the step", onclick: () => pane.point(finding) }));
  card.append(element("span", { className: "what" }, finding.text));
  const { witness, film } = finding;
  if (witness && !film) card.append(element("span", { className: "seen" }, `With threads in the order “${witness.schedule}”, ${witness.word} becomes ${witness.got} instead of ${witness.wanted}.`));
  else if (finding.kind === "race" && !film) card.append(element("span", { className: "seen" }, "None of the schedules tried shows a wrong value; another machine's may."));
  if (film) card.append(filmStrip(pane, finding));
  return card;
}

// What a thread does in a picture of a film, in few words, and with the word that it does it to.
function spokenShot({ orders }, { block, thread, kind, value }, word = "") {
  const many = new Set(orders.flatMap((order) => order.shots.map((shot) => shot.block))).size > 1;
  const [verb, to] = { load: ["reads", " from "], store: ["writes", " to "], atomic: ["leaves", " in "] }[kind];
  return `thread ${thread}${many ? ` of block ${block}` : ""} ${verb} ${value}${word ? `${to}${word}` : ""}`;
}

function ending({ wrong }) {
  return wrong ? `${wrong[0]} becomes ${wrong[1]} instead of ${wrong[2]}` : "every result is right";
}

// A race in both orders: a strip for each, whose pictures the player goes to, and a button that plays them.
function filmStrip(pane, finding) {
  const { film } = finding, { word, orders } = film;
  const show = (order, at) => { pane.app.pause(); pane.roll(finding, order, at); };
  const rows = orders.map((order, k) => {
    const shots = order.shots.map((shot, i) => element("button", { type: "button", className: `shot ${shot.kind}`, onclick: () => show(k, i + 2) }, spokenShot(film, shot), element("small", {}, ` line ${shot.line}`)));
    return element("li", {}, ...shots, element("button", { type: "button", className: order.wrong ? "end" : "end right", onclick: () => show(k, shots.length + 2) }, ending(order)));
  });
  const play = element("button", { type: "button", className: "strong roll", textContent: "▶ Play it in both orders", onclick: () => pane.screen(finding) });
  return element("div", { className: "film" }, element("p", {}, element("span", {}, `What becomes of ${word} depends on who comes first.`), play), element("ol", {}, ...rows));
}

// What would mend it: what is to be done about the first finding, barriers, or the kernel that does it right.
function remedy(pane) {
  const { barriers, findings } = pane.payload, { instead } = pane.row(), [{ kind, mend }] = findings;
  const races = findings.some((f) => f.kind === "race");
  const said = [mend, races ? mending(barriers, kind === "race" ? "it" : "the race") : "", instead ? `Done right in ${instead}.` : ""].filter(Boolean);
  return said.length ? [element("div", { className: "fine" }, element("span", {}, said.join(" ")))] : [];
}

// The lines before which barriers leave no race, in a sentence.
function mending({ missing, hopeless, tried }, it) {
  if (!missing.length) return hopeless === null ? "" : `No barriers mend ${it}, however many, for n = ${hopeless}.`;
  const many = missing[0].length > 1, lines = missing[0].map(([, line]) => line).join(" and line ");
  return `${many ? "Barriers" : "A barrier"} before line ${lines} ${many ? "mend" : "mends"} ${it}, ${tried}.`;
}

// The first thing to try: a barrier that is needed.
function temptation(pane) {
  const { needed } = pane.payload.barriers;
  const spot = needed.find((k) => pane.data.has(pane.changed("without", k, true)));
  if (spot === undefined || Object.keys(pane.dials.edits).length || pane.practice.now) return null;
  return element("button", { type: "button", className: "tempt", textContent: `Try it without the barrier in line ${spot[1]}`, onclick: () => pane.change("without", spot, true) });
}

// The laws that this kernel's network relies on, as a sentence.
function lawful(laws, sums) {
  if (sums) return "The operator is +: this kernel is written for sums.";
  const must = laws.split(", ").filter((law) => law !== "none" && law !== "identity"), neutral = laws.includes("identity");
  const said = must.length ? `must be ${must.join(" and ")}` : neutral ? "" : "may be any function of two values";
  return `The operator ${said}${said && neutral ? ", and " : ""}${neutral ? "must have an identity" : ""}.`;
}

// A number and its noun: 1 word, 2 words.
function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

const COUNTS = [["work", "work: operators applied"], ["steps", "steps, one after the other"], ["barriers", "barriers"], ["shared_loads", "shared loads"],
  ["shared_stores", "shared stores"], ["global_loads", "global loads"], ["global_stores", "global stores"], ["moves", "copies and swaps"], ["atomics", "atomics"], ["shuffles", "shuffles"]];

function drawCounts(table, payload, banks) {
  const rows = COUNTS.filter(([name]) => payload.counts[name] || ["work", "steps", "barriers"].includes(name)).map(([name, label]) => {
    const form = payload.formulas.find((f) => f.count === name), got = payload.counts[name];
    const holds = form && form.value === got;
    return `<tr><td>${label}</td><td class="number">${got}</td><td class="form">${form ? form.text : ""}</td><td class="${holds ? "match" : "miss"}">${form ? (holds ? "as computed" : `${form.value} expected`) : ""}</td></tr>`;
  });
  if (banks.requests) {
    const worse = banks.degree > 1;
    rows.push(`<tr><td>shared requests of warps</td><td class="number">${banks.requests}</td><td class="form"></td><td></td></tr>`);
    rows.push(`<tr><td>wavefronts they take</td><td class="number" data-count="wavefronts">${banks.wavefronts}</td><td class="form">worst conflict ${worse ? `${banks.degree}-way` : "none"}</td><td class="${worse ? "miss" : "match"}">${worse ? "conflicts" : "no conflict"}</td></tr>`);
  }
  const [moved, least] = payload.sectors, [parted, all] = payload.parted, spread = moved > least;
  const alone = payload.trace.launches.every((launch) => launch.grid * launch.block === 1);
  rows.push(`<tr><td>sectors of global memory</td><td class="number" data-count="sectors">${moved}</td><td class="form">${spread ? `${least} would do` : ""}</td><td class="${spread ? "miss" : "match"}">${spread ? "spread" : alone ? "" : "coalesced"}</td></tr>`);
  rows.push(`<tr><td>branches that part a warp</td><td class="number" data-count="parted">${parted}</td><td class="form">of ${all} that warps come to</td><td></td></tr>`);
  table.innerHTML = rows.join("");
}
