"""The memory of Python's objects, as C headers promise it to every extension.

A tuple holds the addresses of its objects, behind its size. An array holds the address of its memory, before all else; two words
behind it the addresses of its shape and of its strides.
"""

from __future__ import annotations

import ctypes

import numpy as np

DATA, ITEMS = object.__basicsize__, tuple.__basicsize__
_probe = (np.zeros(6)[::2],)


def _word(at: int) -> int:
    return ctypes.c_int64.from_address(at).value


def _readable(array: int) -> bool:
    if _word(id(_probe) + ITEMS) != array or _word(array + DATA) != _probe[0].ctypes.data:
        return False
    return [_word(_word(array + DATA + 8 * at)) for at in (2, 3)] == [*_probe[0].shape, *_probe[0].strides]


READABLE = _readable(id(_probe[0]))
"""Whether they are there. An interpreter may keep its objects in another way."""


def address_of(x: np.ndarray) -> int:
    """The address of the first item of an array; to ask the array takes most of a microsecond."""
    return _word(id(x) + DATA) if READABLE else x.ctypes.data
