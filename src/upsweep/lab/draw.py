"""The network as a picture: wires from top to bottom, one node for each application of the operator."""

from __future__ import annotations

import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.lab.intervals import spoken
from upsweep.lab.networks import identify
from upsweep.lab.provenance import flawed
from upsweep.lab.traces import Trace, of_run
from upsweep.lab.values import Item, plain

STYLE = """
.lab { font: 11px ui-sans-serif, system-ui, sans-serif; color: #1f2328; background: #ffffff }
.lab .wire { stroke: #d0d7de; stroke-width: 1 }
.lab .edge { stroke: #57606a; stroke-width: 1.2 }
.lab .node { fill: #0969da; stroke: none }
.lab .flaw { fill: #cf222e; stroke: none }
.lab .idle { fill: #ffffff; stroke: #8c959f }
.lab .text { fill: #1f2328; text-anchor: middle }
.lab .note { fill: #656d76; text-anchor: start }
@media (prefers-color-scheme: dark) {
  .lab { color: #e6edf3; background: #0d1117 } .lab .wire { stroke: #30363d } .lab .edge { stroke: #8b949e }
  .lab .node { fill: #58a6ff } .lab .flaw { fill: #ff7b72 } .lab .idle { fill: #0d1117; stroke: #6e7681 }
  .lab .text { fill: #e6edf3 } .lab .note { fill: #8b949e }
}
"""
PAPER = {"wire": "#d0d7de", "edge": "#57606a", "node": "#0969da", "flaw": "#cf222e", "idle": "#ffffff", "text": "#1f2328",
         "note": "#656d76"}  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """A line from (x, y) to (u, v), a disc at (x, y), or a text there; `kind` is its class in the style sheet."""

    shape: str
    kind: str
    x: float
    y: float
    u: float = 0
    v: float = 0
    text: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawing that knows two formats and shows itself in a notebook."""

    width: float
    height: float
    radius: float
    marks: tuple[Mark, ...]
    title: str

    def svg(self, path: str | Path | None = None) -> str:
        """The drawing as SVG text, which is also written to `path` if one is given."""
        body = "".join(_svg(mark, self.radius) for mark in self.marks)
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        text = (f'<svg xmlns="http://www.w3.org/2000/svg" class="lab" role="img" {size}>'
                f"<title>{escape(self.title)}</title><style>{STYLE}</style>{body}</svg>")  # fmt: skip
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def png(self, path: str | Path | None = None, scale: float = 2) -> bytes:
        """The drawing as PNG bytes for slides, which are also written to `path` if one is given. Needs Pillow."""
        # Pillow is loaded on first use: `pip install 'upsweep[lab]'`.
        from PIL import Image, ImageDraw, ImageFont

        image = Image.new("RGB", (round(self.width * scale), round(self.height * scale)), "white")
        pen, font = ImageDraw.Draw(image), ImageFont.load_default(11 * scale)
        for m in self.marks:
            x, y, u, v, r = (q * scale for q in (m.x, m.y, m.u, m.v, self.radius))
            if m.shape == "line":
                pen.line((x, y, u, v), PAPER[m.kind], round(1.2 * scale))
            elif m.shape == "disc":
                outline = "#8c959f" if m.kind == "idle" else None
                pen.ellipse((x - r, y - r, x + r, y + r), PAPER[m.kind], outline)
            else:
                pen.text((x, y), m.text, PAPER[m.kind], font, "ms" if m.kind == "text" else "ls")
        out = io.BytesIO()
        image.save(out, "PNG")
        if path is not None:
            Path(path).write_bytes(out.getvalue())
        return out.getvalue()

    def _repr_svg_(self) -> str:
        return self.svg()


def _svg(m: Mark, radius: float) -> str:
    if m.shape == "line":
        return f'<line class="{m.kind}" x1="{m.x:.1f}" y1="{m.y:.1f}" x2="{m.u:.1f}" y2="{m.v:.1f}"/>'
    if m.shape == "disc":
        return f'<circle class="{m.kind}" cx="{m.x:.1f}" cy="{m.y:.1f}" r="{radius:.1f}"><title>{escape(m.text)}</title></circle>'
    return f'<text class="{m.kind}" x="{m.x:.1f}" y="{m.y:.1f}">{escape(m.text)}</text>'


@of_run
def network(trace: Trace) -> Picture:
    """The network of a trace: inputs at the top, results at the bottom, levels as the kernel issued them.

    A node stands on the wire of the last input that it covers. Red nodes cover no stretch of the input; hollow ones
    only meet an identity.

    >>> from upsweep import lab
    >>> lab.network(lab.trace("brent-kung", n=8)).svg()[:4]
    '<svg'
    """
    n, machine = trace.n, trace.machine
    gap = min(40.0, max(12.0, 960.0 / n))
    left, top, row = 30.0, 46.0, 26.0
    level = _levels(trace)
    rows = max(level.values(), default=0) + 1
    bottom = top + rows * row
    narrow = gap < 22
    at: dict[int, tuple[float, float]] = {i: (left + i * gap, top) for i in range(n)}
    marks = [Mark("line", "wire", left + i * gap, top, left + i * gap, bottom) for i in range(n)]
    edges, discs = [], []
    for k, depth in level.items():
        wire = trace.intervals[k][-1][1] if trace.intervals[k] else 0
        at[k] = (left + wire * gap, top + depth * row)
        made = [c for c in (machine.left[k], machine.right[k]) if trace.intervals[c]]
        for c in made:
            edges += _wire(at[c], at[k], row) if c in at else []
        kind = "flaw" if flawed(trace, trace.intervals[k]) else "node" if len(made) == 2 else "idle"
        discs.append(
            Mark("disc", kind, *at[k], text=f"{spoken(trace.intervals[k][:8])} = {plain(machine.values[k])}")
        )
    for place, item in enumerate(trace.result.words[:n]):
        if isinstance(item, Item) and item.node in at and trace.intervals[item.node]:
            edges += _wire(at[item.node], (left + place * gap, bottom), row)
    every = -(-n // 32) if narrow else 1
    labels = [Mark("text", "text", left + i * gap, top - 10, text=f"x{i}") for i in range(0, n, every)]
    values = trace.values[:n]
    labels += [
        Mark("text", "text", left + i * gap, bottom + 16, text=_label(v))
        for i, v in enumerate(values)
        if i % every == 0
    ]
    title = identify(trace).text
    labels.append(Mark("text", "note", 8, 16, text=f"{trace.case.name}: {title}"))
    width = max(2 * left + (n - 1) * gap, 16 + 6.2 * len(labels[-1].text))
    return Picture(width, bottom + 26, min(5.0, gap / 3), (*marks, *edges, *discs, *labels), title)


def _wire(start: tuple[float, float], end: tuple[float, float], row: float) -> list[Mark]:
    """Down the wire on which a value stands, and across in the last row before it is used."""
    (x, y), (u, v) = start, end
    bend = max(y, v - row)
    return [Mark("line", "edge", x, y, x, bend), Mark("line", "edge", x, bend, u, v)]


def _levels(trace: Trace) -> dict[int, int]:
    """The level of each node: the steps in which the operator is applied, numbered from 1."""
    events = np.flatnonzero(trace.at("op"))
    steps = {s: k + 1 for k, s in enumerate(np.unique(trace.step[events]).tolist())}
    return {int(trace.node[e]): steps[int(trace.step[e])] for e in events}


def _label(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) < 9 else text[:7] + ".."


@of_run
def tables(trace: Trace) -> Picture:
    """The arrays that stand for tables, side by side in two dimensions, as they are after the run.

    >>> from upsweep import lab
    >>> lab.tables(lab.trace("summed-area-table", n=12)).svg()[:4]
    '<svg'
    """
    cell, row, top, left, marks = 40.0, 22.0, 46.0, 20.0, []
    width = trace.case.setup.width
    if not width:
        raise ValueError(f"{trace.case.name} has no tables: `width` in its setup names none")
    for name, wide in width.items():
        words = [plain(w) for w in trace.given[name].words] if name != "x" else list(trace.case.x)
        high = -(-len(words) // wide)
        marks.append(Mark("text", "note", left, top - 12, text=name))
        marks += [
            Mark("line", "wire", left, top + r * row, left + wide * cell, top + r * row)
            for r in range(high + 1)
        ]
        marks += [
            Mark("line", "wire", left + c * cell, top, left + c * cell, top + high * row)
            for c in range(wide + 1)
        ]
        for k, value in enumerate(words):
            x, y = left + (k % wide + 0.5) * cell, top + (k // wide + 0.7) * row
            marks.append(Mark("text", "text", x, y, text=_label(value)))
        left += wide * cell + 30
        height = top + high * row + 20
    title = f"{trace.case.name}: {', '.join(width)}"
    return Picture(left, height, 5, tuple(marks), title)
