"""Draw the pictures of the course from traces: `python docs/course_pictures.py` writes docs/course/*.svg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from upsweep import lab
from upsweep.lab.traces import Trace
from upsweep.lab.values import plain

HERE = Path(__file__).parent / "course"
NETWORKS = {
    "sequential": "sequential", "naive": "naive", "kogge-stone": "kogge-stone", "exclusive": "kogge-stone-exclusive",
    "race": "ks-no-second-barrier", "reduction": "reduction", "brent-kung": "brent-kung", "blelloch": "blelloch",
    "sklansky": "sklansky", "three-phase": "three-phase", "hierarchical": "hierarchical", "single-pass": "domino-dynamic",
    "look-back": "decoupled-look-back",
}  # fmt: skip
"""Each picture's kernel. Double buffers and banks are drawn in other ways, because their networks show nothing new."""
BANKS = ("blelloch", "blelloch-padded")
COLOURS = {1: "#8fbbe8", 2: "#e7a24a"}
CONFLICT = "#bf2a1a"
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
    'font-family="sans-serif" font-size="12">'
)
PAPER = '<rect width="100%" height="100%" fill="#fff"/>'


def network(kernel: str) -> str:
    """The network of a kernel on 16 items, as its trace draws it."""
    return lab.network(trace(kernel)).svg()


def trace(kernel: str, n: int = 16) -> Trace:
    return lab.trace(kernel, n=n)


def banks(kernels: tuple[str, ...] = BANKS, n: int = 512) -> str:
    """Both kernels' levels from top to bottom, banks from left to right: the words that one warp asks each bank for."""
    parts = [HEAD.format(w=720, h=300), PAPER]
    for column, kernel in enumerate(kernels):
        left = 20 + column * 350
        run = trace(kernel, n)
        counts = lab.counts(run)
        parts.append(f'<text x="{left}" y="20" font-weight="600">{kernel}, n = {n}</text>')
        parts.append(
            f'<text x="{left}" y="38" fill="#646a73">{counts.wavefronts} wavefronts for {counts.requests} requests</text>'
        )
        parts += [_row(left, 50 + 12 * k, load) for k, load in enumerate(_loads(run))]
    return "".join([*parts, "</svg>\n"])


def _loads(run: Trace) -> list[list[int]]:
    """For each step, the most words that one instruction of a warp asks each bank for."""
    played, loads = lab.to_dict(run), []
    for step in played["steps"]:
        asked: dict[tuple[object, ...], set[int]] = {}
        for kind, block, thread, line, column, word, _, _, bank in step["events"]:
            if bank is not None:
                asked.setdefault((kind, block, thread // run.case.warp, line, column, bank), set()).add(word)
        load = [0] * 32
        for (*_, bank), words in asked.items():
            load[bank] = max(load[bank], len(words))
        loads.append(load)
    return loads


def _row(left: int, top: int, load: list[int]) -> str:
    ground = f'<rect x="{left}" y="{top}" width="319" height="10" fill="#f1f1ee"/>'
    cells = [
        f'<rect x="{left + 10 * bank}" y="{top}" width="9" height="10" fill="{COLOURS.get(words, CONFLICT)}"/>'
        for bank, words in enumerate(load)
        if words
    ]
    return ground + "".join(cells)


def buffers(n: int = 8) -> str:
    """The two buffers of a double-buffered scan after each level: the inputs that each word is made of."""
    run = trace("kogge-stone-double", n)
    states = [state for state in lab.provenance(run) if any(word.startswith("xy[") for word in state.words)]
    parts = [HEAD.format(w=760, h=40 + 66 * len(states)), PAPER]
    for k, state in enumerate(states):
        for half in (0, 1):
            y = 30 + 66 * k + 24 * half
            parts.append(f'<text x="10" y="{y + 15}" fill="#646a73">xy[{half}]</text>')
            for t in range(n):
                word = f"xy[{half}, {t}]"
                fresh = word in state.changed
                made = state.words.get(word)
                parts.append(
                    f'<rect x="{60 + 84 * t}" y="{y}" width="80" height="21" rx="3" fill="{"#dcebfb" if fresh else "#f1f1ee"}"/>'
                )
                if made:
                    said = " ".join(f"x{a}" if a == b else f"x{a}..x{b}" for a, b in made)
                    parts.append(f'<text x="{100 + 84 * t}" y="{y + 15}" text-anchor="middle">{said}</text>')
    return "".join([*parts, "</svg>\n"])


TABLE = (3, 1, 7, 0, 4, 1, 6, 3, 2, 5, 1, 0, 3, 2, 2, 1)
"""The picture that is summed, four by four."""


def summed_area() -> str:
    """A picture, its rows scanned, its columns scanned, and the four words of the table that give one box."""
    run = lab.trace("summed-area-table", x=TABLE)
    rows = [plain(word) for word in run.given["rows"].words]
    box = {5, 6, 9, 10}
    corners = {10: ("A", "#8fbbe8"), 2: ("B", "#f3b8b0"), 8: ("C", "#f3b8b0"), 0: ("D", "#bfe3c0")}
    parts = [HEAD.format(w=880, h=250), PAPER]
    parts += _grid(20, "x", TABLE, dict.fromkeys(box, ("", "#dcebfb")))
    parts += _grid(230, "rows scanned", rows, {})
    parts += _grid(440, "columns scanned: the table", run.values, {})
    parts += _grid(650, "a box is A - B - C + D", run.values, corners)
    a, b, c, d = (run.values[place] for place in corners)
    said = f"{a} - {b} - {c} + {d} = {a - b - c + d} = {' + '.join(str(TABLE[k]) for k in sorted(box))}"
    parts.append(f'<text x="650" y="238" fill="#646a73">{said}</text>')
    return "".join([*parts, "</svg>\n"])


def _grid(left: int, title: str, values: Sequence[Any], marked: Mapping[int, tuple[str, str]]) -> list[str]:
    """Sixteen values, four by four. The marked values have a letter and a background."""
    parts = [f'<text x="{left}" y="20" font-weight="600">{title}</text>']
    for place, value in enumerate(values):
        x, y = left + 46 * (place % 4), 34 + 46 * (place // 4)
        letter, ground = marked.get(place, ("", "#f1f1ee"))
        parts.append(f'<rect x="{x}" y="{y}" width="42" height="42" rx="3" fill="{ground}"/>')
        parts.append(f'<text x="{x + 21}" y="{y + 27}" text-anchor="middle">{value}</text>')
        parts += [f'<text x="{x + 4}" y="{y + 13}" font-size="10">{letter}</text>'] if letter else []
    return parts


def pictures() -> dict[str, str]:
    """Every picture by its name."""
    return {
        **{name: network(kernel) for name, kernel in NETWORKS.items()},
        "banks": banks(),
        "buffers": buffers(),
        "summed-area": summed_area(),
    }


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")
