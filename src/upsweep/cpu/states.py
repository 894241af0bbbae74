"""Selective scans: the states of WIDTH channels at a time, step after step for all of them, in scratch memory.

Channels lie side by side, so that the loops over them become vector code. The arithmetic is that of one precision, by
polynomials of our own: a step gives the same bits alone, among others, and in any strip.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.arithmetic import LOG_ADD_EXP, exp_in, fma, logaddexp_in
from upsweep.cpu.address import peek
from upsweep.cpu.layer_words import CHUNK, WIDTH, Place
from upsweep.cpu.layer_words import States as Word
from upsweep.cpu.memory import Items, inner, of_words, typed
from upsweep.cpu.sequences import sequences_of
from upsweep.dtypes import accumulator


class Parts:
    """The functions that both directions use, for items of `stored`."""

    def __init__(self, stored: np.dtype) -> None:
        real = accumulator(stored)
        V, R = Items([stored], [real], True), Items([real], [real], True)
        get, read, write = V.read, R.read, R.write
        self.get, self.put, self.read, self.write = get, V.write, read, write
        numbers = LOG_ADD_EXP[real.str[1:]]
        self.exp = exp = typed(exp_in(numbers))
        soft, one, zero = typed(logaddexp_in(numbers)), numbers.real(1), numbers.real(0)
        self.size, self.one, self.zero, self.row = real.itemsize, one, zero, real.itemsize * WIDTH
        ROW, EACH = self.row, int(Place.EACH)
        BIAS, SKIP, RATE = (ROW * place for place in (Place.BIAS, Place.SKIP, Place.STATES))
        A, SKIPS, BIASES, STATES = map(int, (Word.A, Word.SKIP, Word.BIAS, Word.STATES))
        SOFTPLUS, U, DELTA = map(int, (Word.SOFTPLUS, Word.U, Word.DELTA))

        @inner
        def sigmoid(x):
            return one / (one + exp(-x))

        @of_words
        def fill(place, source, first, stride, w):
            """`w` values that lie `stride` items apart; zeros behind them, and where there is no source."""
            for j in range(WIDTH):
                write((place,), j, read((source,), first + j * stride) if source != 0 and j < w else zero)

        @of_words
        def fill_states(place, step, source, row, states, w):
            """States of channels from `row` on, transposed: neighbouring channels touch."""
            for n in range(states):
                fill(place + n * step * ROW, source, row * states + n, states, w)

        @of_words
        def empty_states(place, target, row, states, w):
            if target != 0:
                for n in range(states):
                    for j in range(w):
                        write((target,), (row + j) * states + n, read((place + n * EACH * ROW,), j))

        by_tickets, line = sequences_of(Word, WIDTH)

        @of_words
        def prepare(words, memory, first, w):
            fill_states(memory + RATE, EACH, peek(words, A), first, peek(words, STATES), w)
            fill(memory + BIAS, peek(words, BIASES), first, 1, w)
            fill(memory + SKIP, peek(words, SKIPS), first, 1, w)

        @of_words
        def take_in(words, memory, sequence, first, w, t, here):
            """Prepare step t: delta after softplus, and that times u. Missing channels get zeros."""
            u, delta, soft_ = (
                line(words, U, sequence, t),
                line(words, DELTA, sequence, t),
                peek(words, SOFTPLUS),
            )
            for j in range(3 * WIDTH):
                write((here,), j, zero)
            for j in range(w):
                step = get((delta,), first + j) + read((memory + BIAS,), j)
                if soft_ != 0:
                    step = soft(step, zero)
                write((here,), j, step)
                write((here + ROW,), j, step * get((u,), first + j))

        self.sigmoid, self.fill, self.fill_states, self.empty_states = (
            sigmoid,
            fill,
            fill_states,
            empty_states,
        )
        self.by_tickets, self.line, self.prepare, self.take_in = by_tickets, line, prepare, take_in


def forwards(stored: np.dtype) -> Callable[..., None]:
    """The code of the way forward."""
    p = Parts(stored)
    get, put, read, write, exp, sigmoid = p.get, p.put, p.read, p.write, p.exp, p.sigmoid
    line, prepare, take_in, fill_states, empty_states = (
        p.line, p.prepare, p.take_in, p.fill_states, p.empty_states,
    )  # fmt: skip
    multiply_add, ROW, EACH = typed(fma), p.row, int(Place.EACH)
    SKIP, HERE, RATE = (ROW * place for place in (Place.SKIP, Place.STEPS, Place.STATES))
    CHANNELS, INITIAL, LAST, MARKS = map(int, (Word.CHANNELS, Word.INITIAL, Word.LAST, Word.MARKS))
    U, Z, B, C, OUT, STEPS = map(int, (Word.U, Word.Z, Word.B, Word.C, Word.OUT, Word.STEPS))
    OFFSETS, STATES = int(Word.OFFSETS), int(Word.STATES)

    @of_words
    def walk(memory, states, b, c):
        here = memory + HERE
        for n in range(states):
            bn, cn = get((b,), n), get((c,), n)
            state = memory + RATE + n * EACH * ROW
            for j in range(WIDTH):
                decay = exp(read((here,), j) * read((state,), j))
                h = multiply_add(decay, read((state + ROW,), j), read((here + ROW,), j) * bn)
                write((state + ROW,), j, h)
                write((here + 2 * ROW,), j, multiply_add(h, cn, read((here + 2 * ROW,), j)))

    @of_words
    def hand_out(words, memory, sequence, first, w, t):
        u, z, out = line(words, U, sequence, t), line(words, Z, sequence, t), line(words, OUT, sequence, t)
        gated = peek(words, Z)
        for j in range(w):
            y = multiply_add(
                read((memory + SKIP,), j), get((u,), first + j), read((memory + HERE + 2 * ROW,), j)
            )
            if gated != 0:
                gate = get((z,), first + j)
                y = y * (gate * sigmoid(gate))
            put((out,), first + j, y)

    def work(words, memory, sequence, first, w, begin, n, row):
        states, channels, marks = peek(words, STATES), peek(words, CHANNELS), peek(words, MARKS)
        before = begin if peek(words, OFFSETS) != 0 else sequence * peek(words, STEPS)
        prepare(words, memory, first, w)
        fill_states(memory + RATE + ROW, EACH, peek(words, INITIAL), row, states, w)
        for i in range(n):
            t = begin + i
            if i % CHUNK == 0 and marks != 0:
                mark = before // CHUNK + sequence + i // CHUNK
                empty_states(memory + RATE + ROW, marks, mark * channels + first, states, w)
            take_in(words, memory, sequence, first, w, t, memory + HERE)
            walk(memory, states, line(words, B, sequence, t), line(words, C, sequence, t))
            hand_out(words, memory, sequence, first, w, t)
        empty_states(memory + RATE + ROW, peek(words, LAST), row, states, w)

    return p.by_tickets(work)
