// The kernel's source: lines that run, lines that race, and barriers to take out or put in by a click.
class Source {
  constructor(root, change, edit) {
    this.box = root.querySelector(".source");
    this.editButton = root.querySelector(".edit");
    this.editButton.addEventListener("click", () => edit(0));
    this.change = change;
    this.edit = edit;
  }

  show(payload, can, live) {
    const held = this.box.contains(document.activeElement) && document.activeElement.dataset.spot;
    this.rows = new Map();
    this.parts = [];
    this.lit = [];
    this.box.replaceChildren();
    const seen = new Map();
    payload.trace.launches.forEach((launch, k) => {
      const text = launch.lines.join("\n");
      if (!seen.has(text)) seen.set(text, this.part(payload, launch, k, can));
      this.parts[k] = seen.get(text);
    });
    this.editButton.hidden = !live || seen.size > 1;  // of several kernels, each has its own
    for (const button of this.box.querySelectorAll("h3 button")) button.hidden = !live || seen.size < 2;
    const again = [...this.box.querySelectorAll("button")].find((button) => held && button.dataset.spot === held);
    again?.focus({ preventScroll: true });  // the keyboard stays where a barrier was
  }

  part(payload, launch, k, can) {
    const places = payload.places[k], part = document.createElement("div"), rows = new Map();
    const name = launch.name;
    if (payload.trace.launches.length > 1) {
      const title = document.createElement("h3");
      title.textContent = `${name}, ${launch.grid} × ${launch.block} threads`;
      title.append(this.button("Edit", `Edit ${name}`, name, () => this.edit(k), true));
      part.append(title);
    }
    let quoted = false;  // inside a docstring
    launch.lines.forEach((text, i) => {
      const marks = text.split('"""').length - 1, prose = quoted || marks > 0;
      if (marks === 1) quoted = !quoted;
      const line = launch.first_line + i;
      if (places.put.includes(line)) part.append(this.inserted(name, line, text));
      const row = document.createElement("div");
      row.className = "line";
      row.innerHTML = `<span class="no">${line}</span><span class="body" style="--in: ${text.search(/\S|$/)}"><span class="text">${coloured(text, prose)}</span></span><span class="who"></span>`;
      row.prepend(this.adder(name, line, places, can));
      if (places.barriers.includes(line)) this.offer(row, text, this.button("remove", `Take out the barrier in line ${line}`, `${name}:${line}`, () => this.change("without", [name, line], true), can("without", [name, line])));
      if (places.gone.includes(line)) {
        row.classList.add("gone");
        this.offer(row, text, this.button("put back", `Put back the barrier in line ${line}`, `${name}:${line}`, () => this.change("without", [name, line], false), true));
      }
      rows.set(line, row);
      part.append(row);
    });
    this.box.append(part);
    return { part, rows };
  }

  // A button behind the code of a line, before its comment, which may be long.
  offer(row, text, button) {
    const code = text.split("#")[0], behind = element("span", { className: "text" });
    const [front] = row.getElementsByClassName("text");
    front.innerHTML = coloured(code.trimEnd());
    behind.innerHTML = coloured(text.slice(code.length));
    front.after(button, behind);
  }

  adder(name, line, places, can) {
    const add = document.createElement(places.free.includes(line) && can("before", [name, line]) ? "button" : "span");
    add.className = "add";
    if (add.tagName === "BUTTON") {
      add.type = "button";
      add.textContent = "+";
      add.dataset.spot = `${name}:${line}`;
      add.title = add.ariaLabel = `Put a barrier before line ${line}`;
      add.addEventListener("click", () => this.change("before", [name, line], true));
    }
    return add;
  }

  inserted(name, line, text) {
    const row = document.createElement("div");
    row.className = "line put";
    const [indent] = text.match(/^ */);
    row.innerHTML = `<span class="add"></span><span class="no">+</span><span class="body" style="--in: ${indent.length}"><span class="text">${indent}cuda.syncthreads()</span></span><span class="who"></span>`;
    row.querySelector(".body").append(this.button("remove", `Take the barrier before line ${line} out again`, `${name}:${line}`, () => this.change("before", [name, line], false), true));
    return row;
  }

  button(label, title, spot, act, possible) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "act";
    button.textContent = label;
    button.dataset.spot = spot;
    button.title = button.ariaLabel = possible ? title : `${title}: run upsweep lab for this`;
    button.disabled = !possible;
    button.addEventListener("click", act);
    return button;
  }

  // Mark the lines of a step and how many threads run each; `race` names two lines and who runs them.
  light(step, doing, race) {
    for (const row of this.lit) {
      row.classList.remove("run", "bad");
      row.querySelector(".who").textContent = "";
    }
    this.lit = [];
    if (step) {
      const { rows } = this.parts[step.launch];
      for (const [line, threads] of doing.lines) this.mark(rows.get(line), "run", threads.size ? `${threads.size} ${threads.size === 1 ? "thread" : "threads"}` : "");
      for (const { line, who } of race || []) this.mark(rows.get(line), "bad", who);
      this.follow(race ? race.map((r) => rows.get(r.line)) : step.lines.map((line) => rows.get(line)));
    } else this.box.scrollTop = 0;
  }

  mark(row, name, who) {
    if (!row) return;
    row.classList.add(name);
    row.querySelector(".who").textContent = who;
    this.lit.push(row);
  }

  // Keep the running lines in view, moving only this box.
  follow(rows) {
    const there = rows.filter(Boolean);
    if (!there.length) return;
    const top = Math.min(...there.map((row) => row.offsetTop)), bottom = Math.max(...there.map((row) => row.offsetTop + row.offsetHeight));
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || bottom > scrollTop + clientHeight) this.box.scrollTop = Math.max(0, Math.min(top - 24, bottom - clientHeight + 24 > top ? top - 24 : bottom - clientHeight + 24));
  }
}

const WORDS = /("[^"]*")|(#.*$)|\b(def|while|for|in|if|elif|else|and|or|not|return|pass|break|continue)\b|\b(cuda\.syncthreads)\b/g;
function coloured(text, prose) {
  const safe = text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  if (prose) return `<span class="s">${safe}</span>`;
  return safe.replace(WORDS, (all, string, comment, word, barrier) => `<span class="${string ? "s" : comment ? "c" : word ? "k" : "f"}">${all}</span>`);
}
