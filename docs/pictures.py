"""Draw the pictures of the canonical tree: `python docs/pictures.py` writes docs/pictures/*.svg."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from upsweep.tree import blocks

CELL, GAP, TOP = 44, 30, 24
COLOURS = ("#4063d8", "#389826", "#cb3c33", "#9558b2", "#d08770")
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" font-family="sans-serif" font-size="13">'
)


def text(x: float, y: float, value: object, anchor: str = "middle", fill: str = "#777") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}">{value}</text>'


def line(a: tuple[float, float], b: tuple[float, float], colour: str, width: float = 1.5) -> str:
    return f'<line x1="{a[0]:g}" y1="{a[1]:g}" x2="{b[0]:g}" y2="{b[1]:g}" stroke="{colour}" stroke-width="{width:g}"/>'


def dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{colour}"/>'


def prefix(n: int) -> str:
    """prefix(n): its aligned blocks, the balanced tree over each, and the fold from the left."""
    levels = max(size.bit_length() for _, size in blocks(0, n))
    bottom = TOP + levels * GAP
    parts, folded = [], None
    for i, (first, size) in enumerate(blocks(0, n)):
        colour = COLOURS[i % len(COLOURS)]
        root = tree(parts, first, size, bottom, colour)
        parts += [text((first + j + 0.5) * CELL, bottom + 20, f"x{first + j}") for j in range(size)]
        if folded:
            joint = (root[0], TOP)
            parts += [line(folded, joint, "#777"), line(root, joint, "#777"), dot(*joint, "#777")]
            folded = joint
        else:
            folded = (root[0], TOP)
            parts.append(line(root, folded, "#777"))
    parts.append(text(folded[0] + 12, TOP + 4, f"prefix({n})", "start"))  # type: ignore[index]
    return "".join([HEAD.format(w=n * CELL + 70, h=bottom + 34), *parts, "</svg>\n"])


def tree(parts: list[str], first: int, size: int, bottom: float, colour: str) -> tuple[float, float]:
    """The balanced tree over a block; returns its root."""
    here = ((first + size / 2) * CELL, bottom - (size.bit_length() - 1) * GAP)
    if size > 1:
        for half in (first, first + size // 2):
            parts.append(line(tree(parts, half, size // 2, bottom, colour), here, colour))
    parts.append(dot(*here, colour))
    return here


def cuts(n: int) -> str:
    """The aligned blocks of every prefix up to n."""
    parts = []
    for k in range(1, n + 1):
        y = TOP + (k - 1) * 22
        parts.append(text(4, y + 13, f"prefix({k}) = {k:0{n.bit_length()}b}₂", "start"))
        for first, size in blocks(0, k):
            colour = COLOURS[size.bit_length() - 1]
            x = 150 + first * 26
            parts.append(
                f'<rect x="{x}" y="{y}" width="{size * 26 - 2}" height="17" rx="3" fill="{colour}"/>'
            )
            parts.append(text(x + size * 13 - 1, y + 13, size, fill="#fff"))
    return "".join([HEAD.format(w=160 + n * 26, h=TOP + n * 22 + 8), *parts, "</svg>\n"])


def chunks(edges: tuple[int, ...]) -> str:
    """The lists of block sums that chunks hand on."""
    parts = []
    for i, (start, stop) in enumerate(pairwise(edges)):
        parts.append(text((start + stop) / 2 * CELL + 10, TOP - 6, f"chunk {i}"))
        parts.append(
            f'<rect x="{start * CELL + 10}" y="{TOP}" width="{(stop - start) * CELL - 4}" height="46" rx="4" fill="none" '
            'stroke="#777"/>'
        )
        for first, size in blocks(start, stop):
            colour, x = COLOURS[size.bit_length() - 1], first * CELL + 14
            parts.append(
                f'<rect x="{x}" y="{TOP + 8}" width="{size * CELL - 12}" height="28" rx="4" fill="{colour}"/>'
            )
            parts.append(text(x + size * CELL / 2 - 6, TOP + 27, size, fill="#fff"))
    return "".join([HEAD.format(w=edges[-1] * CELL + 20, h=TOP + 60), *parts, "</svg>\n"])


PICTURES = {"prefix": prefix(11), "cuts": cuts(12), "chunks": chunks((0, 5, 11, 16))}

if __name__ == "__main__":
    for name, svg in PICTURES.items():
        (Path(__file__).parent / "pictures" / f"{name}.svg").write_text(svg, encoding="utf-8")
