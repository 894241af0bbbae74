"""Selective scans: the states of WIDTH channels at a time, step after step for all of them, in scratch memory.

Channels lie side by side, so that the loops over them become vector code. The arithmetic is that of one precision, by
polynomials of our own: a step gives the same bits alone, among others, and in any strip.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.arithmetic import LOG_ADD_EXP, exp_in, fma, logaddexp_in
from upsweep.cpu.address import fetch_add, peek
from upsweep.cpu.layer_words import CHUNK, WIDTH, Place
from upsweep.cpu.layer_words import States as Word
from upsweep.cpu.memory import Items, inner, of_words, typed
from upsweep.cpu.sequences import sequences_of
from upsweep.dtypes import accumulator


class _Parts:
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

        part, line = sequences_of(Word, WIDTH)

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
        self.part, self.line, self.prepare, self.take_in = part, line, prepare, take_in


def forwards(stored: np.dtype) -> Callable[..., None]:
    """The code of the way forward."""
    p = _Parts(stored)
    get, put, read, write, exp, sigmoid = p.get, p.put, p.read, p.write, p.exp, p.sigmoid
    part, line, prepare, take_in, fill_states, empty_states = (
        p.part, p.line, p.prepare, p.take_in, p.fill_states, p.empty_states,
    )  # fmt: skip
    multiply_add, ROW, EACH = typed(fma), p.row, int(Place.EACH)
    SKIP, HERE, RATE = (ROW * place for place in (Place.SKIP, Place.STEPS, Place.STATES))
    TICKET, TICKETS, CHANNELS, INITIAL, LAST, MARKS = map(
        int, (Word.TICKET, Word.TICKETS, Word.CHANNELS, Word.INITIAL, Word.LAST, Word.MARKS)
    )
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

    def run(words, memory):
        states, channels, marks = peek(words, STATES), peek(words, CHANNELS), peek(words, MARKS)
        while True:
            ticket = fetch_add(words + 8 * TICKET, 1)
            if ticket >= peek(words, TICKETS):
                break
            sequence, first, w, begin, n = part(words, ticket)
            row = sequence * channels + first
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

    return run


def backwards(stored: np.dtype) -> Callable[..., None]:
    """The code of the way back: it makes the states of a chunk once more, from the state that was kept, and then goes from the
    chunk's last step to its first.
    """
    p = _Parts(stored)
    get, put, read, write, exp, sigmoid = p.get, p.put, p.read, p.write, p.exp, p.sigmoid
    part, line, prepare, take_in, fill, fill_states, empty_states = (
        p.part, p.line, p.prepare, p.take_in, p.fill, p.fill_states, p.empty_states,
    )  # fmt: skip
    multiply_add, ROW, SIZE, ONE, ZERO = typed(fma), p.row, p.size, p.one, p.zero
    EACH, PAIR, ONES = int(Place.EACH), int(Place.PAIR), int(Place.ONES)
    SKIP, BIAS, SUM_SKIP, SUM_BIAS, HERE, RATE = (
        ROW * place for place in (Place.SKIP, Place.BIAS, Place.DSKIP, Place.DBIAS, Place.STEPS, Place.STATES)
    )
    TICKET, TICKETS, CHANNELS, MARKS, LAST, SOFTPLUS, LINES, PARTS = map(
        int, (Word.TICKET, Word.TICKETS, Word.CHANNELS, Word.MARKS, Word.LAST, Word.SOFTPLUS, Word.LINES, Word.PARTS)
    )  # fmt: skip
    U, DELTA, Z, B, C, OUT, DU, DDELTA, DZ = map(
        int, (Word.U, Word.DELTA, Word.Z, Word.B, Word.C, Word.OUT, Word.DU, Word.DDELTA, Word.DZ)
    )
    DA, DSKIP, DBIAS, DINITIAL, STEPS, OFFSETS, STATES = map(
        int, (Word.DA, Word.DSKIP, Word.DBIAS, Word.DINITIAL, Word.STEPS, Word.OFFSETS, Word.STATES)
    )

    @of_words
    def again(words, memory, sequence, first, w, t, here, pairs):
        """Step t forwards once more, and its contribution to the gradient of y."""
        take_in(words, memory, sequence, first, w, t, here)
        g, z, gated = line(words, OUT, sequence, t), line(words, Z, sequence, t), peek(words, Z)
        for j in range(3 * WIDTH):
            write((here + 3 * ROW,), j, ZERO)
        for j in range(w):
            dy = get((g,), first + j)
            if gated != 0:
                gate = get((z,), first + j)
                dy = dy * (gate * sigmoid(gate))
            write((here + 3 * ROW,), j, dy)
        b, c = line(words, B, sequence, t), line(words, C, sequence, t)
        for n in range(peek(words, STATES)):
            bn, cn = get((b,), n), get((c,), n)
            state, pair = memory + RATE + n * EACH * ROW, pairs + n * PAIR * ROW
            for j in range(WIDTH):
                decay = exp(read((here,), j) * read((state,), j))
                before = read((state + ROW,), j)
                h = multiply_add(decay, before, read((here + ROW,), j) * bn)
                write((pair,), j, before)
                write((pair + ROW,), j, decay)
                write((state + ROW,), j, h)
                write((here + 2 * ROW,), j, multiply_add(h, cn, read((here + 2 * ROW,), j)))

    @of_words
    def total(place):
        """The sum of WIDTH values: the halves are added up again and again."""
        for j in range(8):
            write((place,), j, read((place,), j) + read((place,), 8 + j))
        for j in range(4):
            write((place,), j, read((place,), j) + read((place,), 4 + j))
        return (read((place,), 0) + read((place,), 2)) + (read((place,), 1) + read((place,), 3))

    @of_words
    def back(memory, states, b, c, here, pairs, parts):
        for n in range(states):
            bn, cn = get((b,), n), get((c,), n)
            state, pair = memory + RATE + n * EACH * ROW, pairs + n * PAIR * ROW
            for j in range(WIDTH):
                dy, before = read((here + 3 * ROW,), j), read((pair,), j)
                dh = multiply_add(cn, dy, read((state + 2 * ROW,), j))
                write((here + 6 * ROW,), j, dh * read((here + ROW,), j))
                write((here + 7 * ROW,), j, read((state + ROW,), j) * dy)
                write((here + 4 * ROW,), j, multiply_add(dh, bn, read((here + 4 * ROW,), j)))
                onward = dh * read((pair + ROW,), j)
                q = onward * before
                write((here + 5 * ROW,), j, multiply_add(q, read((state,), j), read((here + 5 * ROW,), j)))
                write((state + ROW,), j, before)
                write((state + 2 * ROW,), j, onward)
                write((state + 3 * ROW,), j, multiply_add(q, read((here,), j), read((state + 3 * ROW,), j)))
            write((parts,), n, total(here + 6 * ROW))
            write((parts,), states + n, total(here + 7 * ROW))

    @of_words
    def hand_out(words, memory, sequence, first, w, t, here):
        u, delta, z = (
            line(words, U, sequence, t),
            line(words, DELTA, sequence, t),
            line(words, Z, sequence, t),
        )
        g, du, ddelta = (
            line(words, OUT, sequence, t),
            line(words, DU, sequence, t),
            line(words, DDELTA, sequence, t),
        )
        dz, gated, soft = line(words, DZ, sequence, t), peek(words, Z), peek(words, SOFTPLUS)
        for j in range(w):
            value, skip, dy = get((u,), first + j), read((memory + SKIP,), j), read((here + 3 * ROW,), j)
            with_b = read((here + 4 * ROW,), j)
            if gated != 0:
                gate = get((z,), first + j)
                s = sigmoid(gate)
                y = multiply_add(skip, value, read((here + 2 * ROW,), j))
                put((dz,), first + j, get((g,), first + j) * y * s * multiply_add(gate, ONE - s, ONE))
            slope = multiply_add(value, with_b, read((here + 5 * ROW,), j))
            if soft != 0:
                slope = slope * sigmoid(get((delta,), first + j) + read((memory + BIAS,), j))
            put((du,), first + j, multiply_add(skip, dy, read((here,), j) * with_b))
            put((ddelta,), first + j, slope)
            write((memory + SUM_SKIP,), j, multiply_add(dy, value, read((memory + SUM_SKIP,), j)))
            write((memory + SUM_BIAS,), j, read((memory + SUM_BIAS,), j) + slope)

    def run(words, memory):
        states, channels = peek(words, STATES), peek(words, CHANNELS)
        trail = memory + RATE + states * EACH * ROW
        while True:
            ticket = fetch_add(words + 8 * TICKET, 1)
            if ticket >= peek(words, TICKETS):
                break
            sequence, first, w, begin, n = part(words, ticket)
            row = sequence * channels + first
            before = begin if peek(words, OFFSETS) != 0 else sequence * peek(words, STEPS)
            parts = peek(words, PARTS) + (first // WIDTH * peek(words, LINES) + before) * (2 * states * SIZE)
            prepare(words, memory, first, w)
            fill_states(memory + RATE + 2 * ROW, EACH, peek(words, LAST), row, states, w)
            fill_states(memory + RATE + 3 * ROW, EACH, 0, row, states, w)
            fill(memory + SUM_SKIP, 0, 0, 1, w)
            fill(memory + SUM_BIAS, 0, 0, 1, w)
            for chunk in range((n + CHUNK - 1) // CHUNK - 1, -1, -1):
                mark = before // CHUNK + sequence + chunk
                fill_states(memory + RATE + ROW, EACH, peek(words, MARKS), mark * channels + first, states, w)
                low = chunk * CHUNK
                m = min(n - low, CHUNK)
                for k in range(m):
                    here, pairs = memory + HERE + k * ONES * ROW, trail + k * states * PAIR * ROW
                    again(words, memory, sequence, first, w, begin + low + k, here, pairs)
                for k in range(m - 1, -1, -1):
                    here, pairs = memory + HERE + k * ONES * ROW, trail + k * states * PAIR * ROW
                    t = begin + low + k
                    b, c = line(words, B, sequence, t), line(words, C, sequence, t)
                    back(memory, states, b, c, here, pairs, parts + (low + k) * (2 * states * SIZE))
                    hand_out(words, memory, sequence, first, w, t, here)
            empty_states(memory + RATE + 3 * ROW, peek(words, DA), row, states, w)
            empty_states(memory + RATE + 2 * ROW, peek(words, DINITIAL), row, states, w)
            for j in range(w):
                write((peek(words, DSKIP),), row + j, read((memory + SUM_SKIP,), j))
                write((peek(words, DBIAS),), row + j, read((memory + SUM_BIAS,), j))

    return run
