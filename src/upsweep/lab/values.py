"""The contents of memory in the lab: values that remember where they come from, and words that nobody has written."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Item:
    """A value that remembers where it came from: a leaf of the input, or a node of the network."""

    __slots__ = ("node", "value")

    def __init__(self, value: Any, node: int):
        self.value, self.node = value, node

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _unwrapping(name: str, stays: bool) -> Callable:
    """Arithmetic on an item's value; a value that is made of one item alone, such as x*x, still comes from that item."""

    def method(self: Item, *others: Any) -> Any:
        value = getattr(self.value, name)(*[plain(o) for o in others])
        alone = all(not isinstance(o, Item) or o.node == self.node for o in others)
        return Item(value, self.node) if stays and alone and value is not NotImplemented else value

    return method


_ASKED = "lt le gt ge eq ne int float"
_MADE = "add radd sub rsub mul rmul and rand or ror xor rxor floordiv rfloordiv truediv rtruediv mod rmod lshift rshift neg abs"
for _name in (*_ASKED.split(), *_MADE.split()):
    setattr(Item, f"__{_name}__", _unwrapping(f"__{_name}__", stays=_name in _MADE.split()))


class Poison:
    """The value of a word that nobody has written: it spoils a value that it meets, compares with nothing, and indexes nothing.

    A shuffle from a lane that is not there gives one that knows its site, and is a fault where it is used.
    """

    def __init__(self, site: int = -1, text: str = ""):
        self.site, self.text = site, text

    def _spoil(self, *_: Any) -> Poison:
        return self

    def _no(self, *_: Any) -> bool:
        return False

    def __int__(self) -> int:
        return -1

    def __repr__(self) -> str:
        return "?"

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = __neg__ = _spoil
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _no
    __index__ = __int__


POISON = Poison()


def plain(value: Any) -> Any:
    """The value without its memory."""
    return value.value if isinstance(value, Item) else value


@dataclass(eq=False)
class Array:
    """Memory: global, or shared by the threads of one block, or one thread's own."""

    name: str
    space: str
    shape: tuple[int, ...]
    words: list[Any]
    base: int
    """The machine-wide number of its first word; -1 for a thread's own registers."""
    itemsize: int = 4
    block: int = -1
    """Whose it is, as the machine's running number of blocks; -1 for global memory."""
    written: bool = True
    """Whether it held something before the first launch."""
    dynamic: bool = False
    """Whether the launch gives the size, of shared memory."""

    @property
    def size(self) -> int:
        return len(self.words)

    def flat(self, index: Any) -> int:
        """The place of a[i] or a[i, j]; -1 where there is none."""
        if not isinstance(index, tuple):
            index = (index,)
        if len(index) != len(self.shape):
            wanted = ", ".join("ijk"[: len(self.shape)])
            raise IndexError(
                f"write {self.name}[{wanted}], a number for each dimension; here they are {len(index)}"
            )
        place = 0
        for i, extent in zip(index, self.shape):
            i = self.whole(i)
            if not 0 <= i < extent:
                return -1
            place = place * extent + i
        return place

    def whole(self, index: Any) -> int:
        """An index as a number; numba takes no float for one."""
        try:
            return operator.index(plain(index))
        except TypeError:
            raise TypeError(
                f"{self.name} is indexed by {plain(index)!r}, and an index is a whole number: divide by //, not by /"
            ) from None

    def __len__(self) -> int:
        return self.shape[0]

    def place(self, flat: int) -> str:
        """The name of a word: `xy[3]`, or `temp[1, 1]`."""
        index: list[int] = []
        for extent in reversed(self.shape):
            flat, i = divmod(flat, extent) if len(index) < len(self.shape) - 1 else (0, flat)
            index.append(i)
        return f"{self.name}[{', '.join(map(str, reversed(index)))}]"
