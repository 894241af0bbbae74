"""Gated layers in order: the states of WIDTH channels at a time, in scratch memory, a step for all of them after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.arithmetic import LOG_ADD_EXP
from upsweep.cpu.address import peek
from upsweep.cpu.gates import gates_of
from upsweep.cpu.layer_words import GATED_WIDTH as WIDTH
from upsweep.cpu.layer_words import Gated as Word
from upsweep.cpu.memory import Items, inner, of_words, typed
from upsweep.cpu.sequences import sequences_of
from upsweep.dtypes import accumulator


def walker(layer: str, stored: np.dtype, back: bool) -> Callable[..., None]:
    """The code of a layer for items of `stored`, forwards or back."""
    real = accumulator(stored)
    V, R = Items([stored], [real], True), Items([real], [real], True)
    get, put, read, write = V.read, V.write, R.read, R.write
    numbers = LOG_ADD_EXP[real.str[1:]]
    gates = gates_of(layer, numbers, typed)
    make, pull, three, ZERO = gates.make, gates.back, gates.arrays == 3, numbers.real(0)
    taken, gradient = gates.taken, gates.gradient
    STATE, PARAMETER, DPARAMETER = (i * WIDTH * real.itemsize for i in range(3))
    W = {word.name: int(word) for word in Word}
    GIVEN, INITIAL, LAST, DGIVEN, DINITIAL, IN, OUT, G, DX = (
        W[n] for n in ("PARAMETER", "INITIAL", "LAST", "DPARAMETER", "DINITIAL", "X0", "OUT", "G", "DX0")
    )

    by_tickets, line = sequences_of(Word, WIDTH)

    @of_words
    def fill(place, source, first, w):
        for j in range(w):
            write((place,), j, read((source,), first + j) if source != 0 else ZERO)

    @of_words
    def take(place, w):
        for j in range(w):
            write((place,), j, taken(read((place,), j)))

    @of_words
    def give(place, source, first, w):
        if source != 0:
            for j in range(w):
                write((place,), j, gradient(read((source,), first + j), read((place,), j)))

    @of_words
    def empty(place, target, first, w):
        if target != 0:
            for j in range(w):
                write((target,), first + j, read((place,), j))

    if three:

        @inner
        def item(x, y, z, j):
            return get((x,), j), get((y,), j), get((z,), j)

        @inner
        def hand(x, y, z, j, d):
            put((x,), j, d[0])
            put((y,), j, d[1])
            put((z,), j, d[2])

    else:

        @inner
        def item(x, y, z, j):
            return get((x,), j), get((y,), j)

        @inner
        def hand(x, y, z, j, d):
            put((x,), j, d[0])
            put((y,), j, d[1])

    @of_words
    def forwards(memory, x, y, z, out, first, w):
        for j in range(w):
            a, b = make(item(x, y, z, first + j), read((memory + PARAMETER,), j))
            h = a * read((memory + STATE,), j) + b
            write((memory + STATE,), j, h)
            put((out,), first + j, h)

    @of_words
    def step_back(memory, x, y, z, g, before, real_before, dx, dy, dz, first, w):
        for j in range(w):
            inputs, parameter = item(x, y, z, first + j), read((memory + PARAMETER,), j)
            a, _ = make(inputs, parameter)
            s = get((g,), first + j) + read((memory + STATE,), j)
            write((memory + STATE,), j, a * s)
            h = ZERO
            if before != 0:
                h = get((before,), first + j)
            elif real_before != 0:
                h = read((real_before,), j)
            d, dparameter = pull(inputs, parameter, h, s)
            hand(dx, dy, dz, first + j, d)
            write((memory + DPARAMETER,), j, read((memory + DPARAMETER,), j) + dparameter)

    SIZE = real.itemsize

    def work(words, memory, sequence, first, w, begin, n, row):
        fill(memory + PARAMETER, peek(words, GIVEN), first, w)
        take(memory + PARAMETER, w)
        fill(memory + STATE, peek(words, LAST if back else INITIAL), row, w)
        if back:
            fill(memory + DPARAMETER, 0, 0, w)
            for i in range(n):
                t = begin + n - 1 - i
                before = line(words, OUT, sequence, t - 1) if t > begin else 0
                start = peek(words, INITIAL) + row * SIZE if peek(words, INITIAL) != 0 else 0
                step_back(
                    memory, line(words, IN, sequence, t), line(words, IN + 3, sequence, t), line(words, IN + 6, sequence, t),
                    line(words, G, sequence, t), before, start, line(words, DX, sequence, t),
                    line(words, DX + 3, sequence, t), line(words, DX + 6, sequence, t), first, w,
                )  # fmt: skip
            give(memory + DPARAMETER, peek(words, GIVEN), first, w)
            empty(memory + DPARAMETER, peek(words, DGIVEN), row, w)
            empty(memory + STATE, peek(words, DINITIAL), row, w)
        else:
            for i in range(n):
                t = begin + i
                forwards(
                    memory, line(words, IN, sequence, t), line(words, IN + 3, sequence, t), line(words, IN + 6, sequence, t),
                    line(words, OUT, sequence, t), first, w,
                )  # fmt: skip
            empty(memory + STATE, peek(words, LAST), row, w)

    return by_tickets(work)
