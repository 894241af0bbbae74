"""The way back through selective scans: the gradients of `states`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.arithmetic import fma
from upsweep.cpu.address import peek
from upsweep.cpu.layer_words import CHUNK, WIDTH, Place
from upsweep.cpu.layer_words import States as Word
from upsweep.cpu.memory import of_words, typed
from upsweep.cpu.states import Parts


def backwards(stored: np.dtype) -> Callable[..., None]:
    """The code of the way back: it makes the states of a chunk once more, from the state that was kept, and then goes from the
    chunk's last step to its first.
    """
    p = Parts(stored)
    get, put, read, write, exp, sigmoid = p.get, p.put, p.read, p.write, p.exp, p.sigmoid
    line, prepare, take_in, fill, fill_states, empty_states = (
        p.line, p.prepare, p.take_in, p.fill, p.fill_states, p.empty_states,
    )  # fmt: skip
    multiply_add, ROW, SIZE, ONE, ZERO = typed(fma), p.row, p.size, p.one, p.zero
    EACH, PAIR, ONES = int(Place.EACH), int(Place.PAIR), int(Place.ONES)
    SKIP, BIAS, SUM_SKIP, SUM_BIAS, HERE, RATE = (
        ROW * place for place in (Place.SKIP, Place.BIAS, Place.DSKIP, Place.DBIAS, Place.STEPS, Place.STATES)
    )
    CHANNELS, MARKS, LAST, SOFTPLUS, LINES, PARTS = map(
        int, (Word.CHANNELS, Word.MARKS, Word.LAST, Word.SOFTPLUS, Word.LINES, Word.PARTS)
    )
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

    def work(words, memory, sequence, first, w, begin, n, row):
        states, channels = peek(words, STATES), peek(words, CHANNELS)
        trail = memory + RATE + states * EACH * ROW
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

    return p.by_tickets(work)
