"""Trees by Euler tours: a tour written out as a sequence turns questions on trees into scans."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from upsweep import api
from upsweep.apps import moving
from upsweep.apps.kinds import INTEGRAL, enter, summed
from upsweep.apps.sorting import argsort
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError


class Tree:
    """A rooted tree or forest of n nodes, whose Euler tour, written out as a sequence, turns each of its questions into a scan.

    Args:
        parents: n integers: the parent of each node, -1 for a root. Children, and roots, come in the order of their numbers.

    Raises:
        ValueError: a parent that is no node, parents that form a circle, or 2^30 nodes. ShapeError: not 1-D.
        DTypeError: parents that are no integers.

    The depths are known at once: how many links lead from each node to a root. The tour is made when it is first asked for.

    >>> from upsweep import apps
    >>> tree = apps.Tree([-1, 0, 0, 1, 1])
    >>> tree.depths().tolist(), tree.preorder().tolist(), tree.postorder().tolist()
    ([0, 1, 1, 2, 2], [0, 1, 4, 2, 3], [4, 2, 3, 0, 1])
    >>> tree.subtree_sums([1, 1, 1, 1, 1]).tolist()
    [5, 3, 1, 1, 1]
    >>> apps.Tree.from_parentheses("(()())").depths().tolist()
    [0, 1, 1]

    Source: Tarjan and Vishkin, "An efficient parallel biconnectivity algorithm" (1985); Wyllie (1979) and Helman and JaJa (1999)
    for list ranking.
    """

    def __init__(self, parents: Any) -> None:
        xp, (parents,), give = enter(parents)
        if parents.ndim != 1:
            raise ShapeError(f"parents must be 1-D, got shape {tuple(parents.shape)}")
        n = parents.shape[0]
        if n and kind_of(parents.dtype) not in INTEGRAL:
            raise DTypeError(f"parents are integers, got {parents.dtype}")
        if n >= 1 << 30:
            raise ValueError(f"a tree of {n} nodes is too large: 2^30 - 1 is the most")
        places = xp.astype(parents, xp.int64, copy=True)
        self._parents = give(places)
        depths = moving.distances(xp, enter(self._parents)[1][0])
        self._depths = give(depths)
        # An unsigned number that is too large would be -1.
        wrapped = kind_of(parents.dtype) == "u" and bool((places < 0).any())
        if wrapped or (n and int(xp.min(depths)) < 0):
            if wrapped or not bool(xp.all((places >= -1) & (places < n))):
                raise ValueError(f"each parent must be a node, 0 to {n - 1}, or -1")
            raise ValueError("the parents form a circle")

    @classmethod
    def from_parentheses(cls, text: Any) -> Tree:
        """The tree that balanced parentheses spell, nodes numbered by their opening ones.

        Args:
            text: a str or bytes of "(" and ")", or a boolean array that is true where a node opens.

        Raises:
            ValueError: unbalanced, or another character. ShapeError: not 1-D. DTypeError: an array of another dtype.
        """
        opening = text
        if isinstance(text, (str, bytes, bytearray)):
            codes = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)
            if not np.isin(codes, np.frombuffer(b"()", np.uint8)).all():
                raise ValueError("the text holds a character that is no parenthesis")
            opening = codes == ord("(")
        xp, (opening,), give = enter(opening)
        if opening.ndim != 1:
            raise ShapeError(f"parentheses must be 1-D, got shape {tuple(opening.shape)}")
        if opening.shape[0] and kind_of(opening.dtype) not in ("b", *INTEGRAL):
            raise DTypeError(f"a tree is spelled by a str, bytes or booleans, got {opening.dtype}")
        opening = xp.astype(opening, xp.bool)
        tree = cls.__new__(cls)
        tree._places = tuple(map(give, _match(xp, opening)))
        return tree

    @property
    def opens(self) -> Any:
        """The place (int64) in the tour at which each node is entered."""
        return self._places[0]

    @property
    def closes(self) -> Any:
        """The place (int64) in the tour at which each node is left."""
        return self._places[1]

    @cached_property
    def _places(self) -> tuple[Any, Any]:
        xp, (parents,), give = enter(self._parents)
        left = moving.distances(xp, _tour(xp, parents))
        n = parents.shape[0]
        return give(2 * n - 1 - left[:n]), give(2 * n - 1 - left[n:])

    @cached_property
    def _depths(self) -> Any:
        """One up at each opening, one down at each closing, summed."""
        xp, (opens, closes), give = enter(self.opens, self.closes)
        one = xp.ones_like(opens)
        return give(self._scan(xp, opens, closes, one, -one)[opens] - 1)

    def depths(self) -> Any:
        """How many nodes are above each one (int64)."""
        return self._depths

    def preorder(self) -> Any:
        """The number (int64) of each node in the order in which they open: parents first."""
        xp, (opens, closes), give = enter(self.opens, self.closes)
        one = xp.ones_like(opens)
        return give(self._scan(xp, opens, closes, one, 0 * one)[opens] - 1)

    def postorder(self) -> Any:
        """The number (int64) of each node in the order in which they close: children first."""
        xp, (opens, closes), give = enter(self.opens, self.closes)
        one = xp.ones_like(opens)
        return give(self._scan(xp, opens, closes, 0 * one, one)[closes] - 1)

    def subtree_sums(self, weights: Any) -> Any:
        """For each node the sum of the weights of itself and all below it.

        Booleans and integers are summed in 64 bits. Floats are summed in float64 (complex128) as differences of prefixes, so that
        a small subtree next to large ones is right to the rounding of the whole, and NaN stands behind a NaN or an infinity.

        Raises:
            ShapeError: not one weight a node. DTypeError: weights that are no numbers.
        """
        xp, (opens, closes, weights), give = enter(self.opens, self.closes, weights)
        if weights.shape != opens.shape:
            raise ShapeError(f"weights of shape {tuple(weights.shape)} do not fit {opens.shape[0]} nodes")
        weights = xp.astype(weights, summed(xp, weights.dtype))
        sums = self._scan(xp, opens, closes, weights, xp.zeros_like(weights))
        return give(sums[closes] - sums[opens] + weights)

    @staticmethod
    def _scan(xp: Any, opens: Any, closes: Any, at_opening: Any, at_closing: Any) -> Any:
        tour = xp.zeros(2 * opens.shape[0], dtype=at_opening.dtype, device=opens.device)
        tour[opens], tour[closes] = at_opening, at_closing
        return api.scan(tour)


def _tour(xp: Any, parents: Any) -> Any:
    """The successor of each step of the tour: step v enters node v, step n + v leaves it. That of the last step is -1."""
    n = parents.shape[0]
    # Siblings together, in their order; roots first.
    order = argsort(parents)
    sorted_parents, nodes = parents[order], moving.indices(xp, n, parents)
    starts = xp.ones(n, dtype=xp.bool, device=parents.device)
    starts[1:] = sorted_parents[1:] != sorted_parents[:-1]
    # The tour leaves a leaf at once.
    follow = xp.concat([nodes + n, xp.where(parents >= 0, parents + n, -1)])
    older, younger = order[:-1][~starts[1:]], order[1:][~starts[1:]]
    follow[older + n] = younger
    first = starts & (sorted_parents >= 0)
    follow[sorted_parents[first]] = order[first]
    return follow


def _match(xp: Any, opening: Any) -> tuple[Any, Any]:
    """The places where each node opens and closes: sorted stably by depth, each opening stands before its closing."""
    n = opening.shape[0]
    depth = api.scan(xp.where(opening, 1, -1)) if n else moving.indices(xp, 0, opening)
    if n and (int(xp.min(depth)) < 0 or int(depth[-1]) != 0):
        raise ValueError("the parentheses are not balanced")
    order = argsort(depth + xp.astype(~opening, xp.int64))
    opens, closes = order[0::2], order[1::2]
    by_opening = argsort(opens)
    return opens[by_opening], closes[by_opening]
