"""Keys of groups as integers or text in Arrow's memory, and the part of all rows that a key belongs to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep.files.arrays import along_axis
from upsweep.files.heads import columns_of
from upsweep.files.tables import numbers_of
from upsweep.host.codes import float_bits, of_objects
from upsweep.segments import SegmentError, Segments

MOST_WORDS = 1 << 14
"""Text of more words than this is not numbered: all words are written down whenever a block brings new ones. Sums of 8 million
float64 by 4000 texts: .97 s of processor, 2.0 without numbers."""


class ManyWords(Exception):
    """The column that this names has more words than are numbered."""


class Keys:
    """The keys of groups as a user passed them: columns of a table, files of arrays, arrays. Columns that are read as
    dictionaries have their words numbered as they are met. A word has one number in all blocks: the words hold for the next
    block.
    """

    def __init__(self, segments: Segments) -> None:
        self.columns = columns_of(segments)
        self._keys = [key if key in self.columns else _loaded(key) for key in map(_plain, segments.values)]
        self._words: dict[str, dict[bytes, int]] = {}

    @property
    def itemsize(self) -> int:
        """About how many bytes the keys of a row have."""
        return sum(16 if isinstance(key, str) else max(key.dtype.itemsize, 8) for key in self._keys)

    def of(self, first: int, rows: int, block: Any) -> list[Any]:
        """The keys of so many rows from row `first` on, whose columns are in `block`: of int64, large_string or large_binary,
        equal where the keys are, and missing where they are. ManyWords where words are numbered that are too many."""
        made = []
        for key in self._keys:
            if isinstance(key, str):
                made.append(self._numbered(key, block[key]) if key in self._words else _of_column(block[key]))
            else:
                self._check(key, first + rows, key.size < first + rows)
                made.append(_of_array(key[first : first + rows]))
        return made

    def words(self) -> dict[str, list[str]]:
        """The words of each column that is read as a dictionary, by their numbers, as JSON has them."""
        # Meanwhile another thread may meet words.
        return {name: [word.decode("latin-1") for word in [*known]] for name, known in self._words.items()}

    def number(self, words: dict[str, list[str]]) -> None:
        """Go on with words that are known; columns that are not named are not numbered."""
        self._words = {
            name: {word.encode("latin-1"): number for number, word in enumerate(known)}
            for name, known in words.items()
        }

    def _numbered(self, name: str, column: Any) -> Any:
        import pyarrow as pa

        known = self._words[name]
        words = column.dictionary.cast(pa.binary()).to_pylist()
        numbers = np.array([known.setdefault(word, len(known)) for word in words], np.int64)
        if len(known) > MOST_WORDS:
            raise ManyWords(name)
        return integers(numbers).take(column.indices)

    def check(self, rows: int) -> None:
        """Raise the error that `upsweep.scan` would raise for so many items."""
        for key in self._keys:
            if not isinstance(key, str):
                self._check(key, rows, key.size != rows)

    def _check(self, key: np.ndarray, rows: int, wrong: bool) -> None:
        if wrong or key.ndim != 1:
            raise SegmentError(
                f"keys of groups have shape {key.shape}; pass {rows} of them, 1-D along the axis"
            )


def _plain(key: Any) -> Any:
    return os.fspath(key) if isinstance(key, os.PathLike) else key


def _loaded(key: Any) -> np.ndarray:
    if isinstance(key, str):
        return along_axis(key)
    values = np.asarray(key)
    return of_objects(values) if values.dtype == object else values


def _of_array(values: np.ndarray) -> Any:
    import pyarrow as pa

    kind = values.dtype.kind
    if kind in "US":
        return _of_column(pa.array(values.tolist(), pa.string() if kind == "U" else pa.binary()))
    if kind == "f" and values.itemsize <= 8:
        return integers(float_bits(values))
    if kind in "mM":
        return integers(values.view(np.int64))
    if kind not in "biu":
        raise SegmentError(f"keys of groups in a file are numbers, times or text, not {values.dtype}")
    return integers(values.astype(np.int64))


def integers(values: np.ndarray) -> Any:
    """Integers in Arrow's memory. Arrow's own way there imports pandas, and so do its scalars."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(np.ascontiguousarray(values))])


def _of_column(column: Any) -> Any:
    import pyarrow as pa

    is_, wide = pa.types, pa.large_string()
    if is_.is_dictionary(column.type):
        column = column.dictionary_decode()
    t = column.type
    if is_.is_floating(t):
        return integers(float_bits(numbers_of(column)))
    if is_.is_integer(t) or is_.is_boolean(t) or (is_.is_temporal(t) and t.bit_width <= 64):
        if not is_.is_boolean(t) and t.bit_width == 64:
            return column.view(pa.int64())
        return (column.view(pa.int32()) if is_.is_temporal(t) else column).cast(pa.int64())
    if is_.is_binary(t) or is_.is_large_binary(t) or is_.is_fixed_size_binary(t):
        wide = pa.large_binary()
    try:
        return column.cast(wide)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise SegmentError(f"keys of groups cannot be of {t}: pass the columns that it is made of") from None


def parts_of(keys: Sequence[Any], bits: int) -> np.ndarray:
    """The part of each row, one of 2^bits: equal keys are in one part, whichever block they come in."""
    mixed = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        mixed ^= _hashes(key)
        _mix(mixed)
    return (mixed >> np.uint64(1) >> np.uint64(63 - bits)).astype(np.uint16)


def _mix(words: np.ndarray) -> None:
    """Mix words in place, so that the highest bits depend on all bits."""
    words *= np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(32)
    words *= np.uint64(0xC2B2AE3D27D4EB4F)


def _hashes(key: Any) -> np.ndarray:
    """A number for each key: integers themselves, and texts by eight bytes at a time."""
    import pyarrow as pa

    if not len(key):
        return np.zeros(0, np.uint64)
    validity, *buffers = key.buffers()
    if key.type == pa.int64():
        hashes = np.frombuffer(buffers[0], np.uint64)[key.offset : key.offset + len(key)]
    else:
        places = np.frombuffer(buffers[0], np.int64)[key.offset : key.offset + len(key) + 1]
        bytes_ = np.frombuffer(buffers[1], np.uint8) if buffers[1] else np.empty(0, np.uint8)
        hashes = _text_hashes(bytes_, places[:-1], np.diff(places))
    if not key.null_count:
        return hashes
    valid = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return np.where(valid[key.offset : key.offset + len(key)], hashes, np.uint64(0))


def _text_hashes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    # Eight bytes from every place on; those behind the last text are zeros.
    padded = np.append(data, np.zeros(8, np.uint8))
    words = np.ndarray(data.size + 1, np.dtype("<u8"), padded, strides=(1,))
    hashes, shortest = lengths.astype(np.uint64), int(lengths.min())
    for at in range(0, int(lengths.max()), 8):
        # Texts of one length take 14 ns each, which by their places would be 23.
        here = slice(None) if at < shortest else np.flatnonzero(lengths > at)
        read = words[starts[here] + at]
        if at + 8 > shortest:
            read <<= np.uint64(8) * (8 - np.minimum(lengths[here] - at, 8)).astype(np.uint64)
        read ^= hashes[here]
        _mix(read)
        hashes[here] = read
    return hashes
