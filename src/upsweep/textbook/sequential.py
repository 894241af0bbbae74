"""Scans by one thread, and by threads that do not talk to each other: where every course begins."""

from __future__ import annotations

from upsweep.textbook.dialect import cuda, identity, op


def sequential(x, y, n):
    """Sequential inclusive scan (PMPP chapter 11, figure 11.1; ECE569 module 37)."""
    y[0] = x[0]
    for i in range(1, n):
        y[i] = op(y[i - 1], x[i])


def sequential_exclusive(x, y, n):
    """Sequential exclusive scan (CS380 lecture 24, "Scan on the CPU"; it says n additions and makes n - 1)."""
    y[0] = identity
    for i in range(1, n):
        y[i] = op(y[i - 1], x[i - 1])


def naive(x, y, n):
    """Naive scan: every thread sums all of its inputs (ECE569 module 37, "version 1")."""
    i = cuda.grid(1)
    if i < n:
        total = x[0]
        for j in range(1, i + 1):
            total = op(total, x[j])
        y[i] = total
