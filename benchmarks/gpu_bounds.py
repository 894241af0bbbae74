"""What bounds rows of the GPU's table that miss their goal, for the page of gpu_page.py.

Fractions are of a copy, measured on an H200 with parts of the kernel cut out: "moves alone" has neither sums nor look-backs.
Instructions are counted in the machine code for sm_90, on the path that a tile takes.
"""

from __future__ import annotations

LINES = "lines that begin at any byte: moves alone {}, without look-backs {}"

BOUNDS = {
    "add f4 806109x333 axis 0": LINES.format(0.85, 0.81),
    "add i1 806112x333 axis 0": LINES.format(0.9, 0.83),
    "or ? 268704x999 axis 0": LINES.format(0.76, 0.68),
    "add bf16 403056x333 axis 0": LINES.format(0.81, 0.71),
    "add f4 100x2684354 axis 0": "lines that begin within sectors of 32 bytes: .90 of 2684352 columns, which begin at sectors",
    "add i1 12782640x7x3 axis 1": "shared memory: two accesses a byte, of two cycles each",
    "add e4m3": "14 instructions a byte, 17 where sums overflow, as here",
    "add e4m3 rows of 999": "15 instructions a byte",
    "logaddexp f4": "22 instructions an operation, 2.5 operations an item: 67 instructions an item with all others",
    "python, 3 of f8": "3.1 operations an item, each with a division in double precision",
    "python, 8 of f4": "3.1 operations an item, each of 56 instructions",
    "python, 8 of f8": "4.2 operations an item, each of 56 instructions in double precision",
}
