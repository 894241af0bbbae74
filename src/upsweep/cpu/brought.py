"""Groups whose items are brought together: they go to buckets, are scanned there, and results go back to the items' places.

A bucket is a group, where groups are few, and items are brought together stretch by stretch, each of which stays in the cache.
Items of many groups are divided once, into as many buckets as a pass can write side by side; those of a bucket, which stay in the
cache too, are sorted by groups. Several threads share the rows of a pass, and the buckets (`Phase`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.cpu import fused
from upsweep.cpu.address import peek
from upsweep.cpu.group_items import scanner
from upsweep.cpu.group_words import AHEAD, BLOCK, Form, Phase, Word
from upsweep.cpu.memory import Items, gathered, inner
from upsweep.plan import Plan

NEAR, FAR, SEEN = (Items([np.dtype(t)], [np.dtype(np.int64)], True) for t in (np.int32, np.int64, np.uint8))


def bringer(plan: Plan, form: Form, write: Any) -> tuple[Any, Any]:
    """The code that goes through all phases for a row, and through one."""
    X, _, P, *_ = fused.access(plan)
    operand, scan, word = fused.item(plan), scanner(plan, form), gathered(1)
    X_read, P_read, P_write, P_at, P_fetch = X.read_strided, P.read, P.write, P.at, P.fetch
    code_read, near_read, near_write = NEAR.read_strided, NEAR.read, NEAR.write
    near_at, near_fetch = NEAR.at, NEAR.fetch
    far_read, far_write, far_at = FAR.read, FAR.write, FAR.at
    SHIFT, BUCKETS, THREADS, THREAD = map(int, (Word.SHIFT, Word.BUCKETS, Word.THREADS, Word.THREAD))
    CURSORS, BEGINS, LOCALS, INNER = map(int, (Word.CURSORS, Word.BEGINS, Word.LOCALS, Word.INNER))
    N, STRETCH, DEPTH, FROM, BEHIND = map(int, (Word.N, Word.STRETCH, Word.DEPTH, Word.FROM, Word.BEHIND))
    PHASE, COUNT, PLACE, SPREAD, SCAN = map(
        int, (Word.PHASE, Phase.COUNT, Phase.PLACE, Phase.SPREAD, Phase.SCAN)
    )
    # In an exclusive scan a group's items lie behind the prefix before them.
    LEAD = int(form.exclusive)
    LEAST = 1 if form.in_order else BLOCK

    @inner
    def count(codes, step, shift, cursors, buckets, first, behind):
        """How many of some items each bucket gets."""
        for b in range(buckets):
            far_write(cursors, b, 0)
        for i in range(first, behind):
            b = code_read(codes, step, i) >> shift
            far_write(cursors, b, far_read(cursors, b) + 1)

    @inner
    def place(words, cursors, begins, counts):
        """Where the items of each bucket go, those of each thread behind those of the thread before it. Where a bucket is a
        group, they lie behind room for its items that wait."""
        buckets, alone, at = peek(words, BUCKETS), peek(words, SHIFT) == 0, 0
        for b in range(buckets):
            if alone:
                at += LEAD + far_read(counts, b) % LEAST
            for k in range(b, b + peek(words, THREADS) * buckets, buckets):
                n = far_read(cursors, k)
                far_write(cursors, k, at)
                far_write(begins, k, at)
                at += n

    @inner
    def spread(words, arrays, codes, step, cursors, items, first, behind):
        """Bring some items to their buckets. Lines of memory that will be written are fetched: no store waits for them."""
        shift, locals_ = peek(words, SHIFT), word(words, LOCALS, 1)
        for i in range(first, behind):
            group = code_read(codes, step, i)
            b = group >> shift
            at = far_read(cursors, b)
            far_write(cursors, b, at + 1)
            P_write(items, at, operand(X_read(arrays[0], arrays[1], i), abs(arrays[4] - i)))
            P_fetch(items, at + AHEAD)
            if shift:
                near_write(locals_, at, group - (b << shift))
                near_fetch(locals_, at + AHEAD)

    @inner
    def scan_groups(words, counts, rooms, start, begins, ends, first, behind, last):
        """Scan groups, each of which is a bucket. Items behind a group's last block wait for the next stretch, and are scanned
        in both."""
        sums, prefixes, waiting, items, _ = rooms
        for group in range(first, behind):
            at, end, seen = far_read(begins, group), far_read(ends, group), far_read(counts, group)
            if at == end:
                continue
            wait, left = seen % LEAST, (seen + end - at) % LEAST
            far_write(counts, group, seen + end - at)
            for k in range(wait):
                P_write(items, at - wait + k, P_read(waiting, group * BLOCK + k))
            if not last:
                for k in range(left):
                    P_write(waiting, group * BLOCK + k, P_read(items, end - left + k))
            scan(
                sums,
                prefixes,
                items,
                start,
                group * peek(words, DEPTH),
                seen // LEAST,
                at - wait,
                wait + end - at,
            )

    @inner
    def scan_bucket(words, rooms, start, at, n):
        """Sort the n items of a bucket by groups, scan these, and bring results back to the items' places."""
        sums, prefixes, _, bucket, items = rooms
        cursors, groups, bucket = word(words, INNER, 1), 1 << peek(words, SHIFT), P_at(bucket, at)
        locals_ = near_at(word(words, LOCALS, 1), at)
        for group in range(groups):
            far_write(cursors, group, 0)
        for k in range(n):
            group = near_read(locals_, k)
            far_write(cursors, group, far_read(cursors, group) + 1)
        at = 0
        for group in range(groups):
            new = far_read(cursors, group)
            at += LEAD
            far_write(cursors, group, at)
            at += new
        for k in range(n):
            group = near_read(locals_, k)
            at = far_read(cursors, group)
            far_write(cursors, group, at + 1)
            P_write(items, at, P_read(bucket, k))
        at = 0
        for group in range(groups):
            at, end = at + LEAD, far_read(cursors, group)
            far_write(cursors, group, at)
            if at < end:
                scan(sums, prefixes, items, start, 0, 0, at, end - at)
            at = end
        for k in range(n):
            group = near_read(locals_, k)
            at = far_read(cursors, group)
            far_write(cursors, group, at + 1)
            P_write(bucket, k, P_read(items, at - LEAD))

    @inner
    def scan_some(words, counts, rooms, start, first, behind, last):
        begins = word(words, BEGINS, 1)
        ends = far_at(word(words, CURSORS, 1), (peek(words, THREADS) - 1) * peek(words, BUCKETS))
        if peek(words, SHIFT) == 0:
            scan_groups(words, counts, rooms, start, begins, ends, first, behind, last)
            return
        for b in range(first, behind):
            at, end = far_read(begins, b), far_read(ends, b)
            if at < end:
                scan_bucket(words, rooms, start, at, end - at)

    @inner
    def bring_back(words, arrays, codes, step, begins, items, first, behind):
        shift, lead = peek(words, SHIFT), 0 if peek(words, SHIFT) else LEAD
        for i in range(first, behind):
            b = code_read(codes, step, i) >> shift
            at = far_read(begins, b)
            far_write(begins, b, at + 1)
            P_fetch(items, at + AHEAD)
            write(arrays, i, P_read(items, at - lead))

    @inner
    def by_stretches(words, arrays, codes, step, counts, rooms, start):
        cursors, begins, items = word(words, CURSORS, 1), word(words, BEGINS, 1), rooms[3]
        n, most, buckets = peek(words, N), peek(words, STRETCH), peek(words, BUCKETS)
        for first in range(0, n, most):
            behind = min(n, first + most)
            count(codes, step, peek(words, SHIFT), cursors, buckets, first, behind)
            place(words, cursors, begins, counts)
            spread(words, arrays, codes, step, cursors, items, first, behind)
            scan_some(words, counts, rooms, start, 0, buckets, behind == n)
            bring_back(words, arrays, codes, step, begins, items, first, behind)

    @inner
    def phase_of(words, arrays, codes, step, counts, rooms, start):
        """One phase, of one thread."""
        cursors, begins, phase = word(words, CURSORS, 1), word(words, BEGINS, 1), peek(words, PHASE)
        own, first, behind = (
            peek(words, THREAD) * peek(words, BUCKETS),
            peek(words, FROM),
            peek(words, BEHIND),
        )
        if phase == COUNT:
            count(codes, step, peek(words, SHIFT), far_at(cursors, own), peek(words, BUCKETS), first, behind)
        elif phase == PLACE:
            for group in range(0 if peek(words, SHIFT) else peek(words, BUCKETS)):
                far_write(counts, group, 0)
            place(words, cursors, begins, counts)
        elif phase == SPREAD:
            spread(words, arrays, codes, step, far_at(cursors, own), rooms[3], first, behind)
        elif phase == SCAN:
            scan_some(words, counts, rooms, start, first, behind, True)
        else:
            bring_back(words, arrays, codes, step, far_at(begins, own), rooms[3], first, behind)

    return by_stretches, phase_of
