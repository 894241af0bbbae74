"""Round trips of any data, and every damaged file is refused."""

from __future__ import annotations

import contextlib
import struct
import sysconfig
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upsweep as up
from upsweep.apps import CompressionError, compress, compression, decompress

RNG = np.random.default_rng(10)
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@settings(max_examples=50)
@given(st.one_of(st.binary(max_size=60), st.text("ab", max_size=3000).map(str.encode)))
def test_bytes_come_back(data):
    assert decompress(compress(data)) == data


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 127, 128, 129, 511, 512, 513, 100_003])
def test_integers_come_back(dtype, n):
    kinds = np.iinfo(dtype)
    for x in (
        RNG.integers(kinds.min, kinds.max, n, dtype, endpoint=True),
        np.arange(n).astype(dtype),
        np.full(n, kinds.max, dtype),
        np.resize(np.array([kinds.min, kinds.max], dtype), n),
        np.where(np.arange(n) == 300, np.array(kinds.max, dtype), np.array(0, dtype)),
    ):
        y = decompress(compress(x))
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    "data",
    [b"a" * 70_000, bytes(range(256)) * 300, b"\0" * 5000, b"".join(bytes([k]) * 3**k for k in range(12))],
)
def test_lopsided_bytes_come_back(data):
    assert decompress(compress(data)) == data


def test_counts_like_fibonaccis_make_the_longest_codes():
    counts = [1, 1]
    while len(counts) < 25:
        counts.append(counts[-1] + counts[-2])
    data = RNG.permutation(np.repeat(np.arange(25, dtype=np.uint8), counts)).tobytes()
    assert decompress(compress(data)) == data


def by_scans(call, given):
    """A call without an engine's own loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "loops", lambda name: None)
        return call(given)


@pytest.mark.parametrize("n", [0, 1, 5, 127, 129, 511, 512, 513, 2049, 65_535, 65_540, 200_001])
def test_frames_are_those_of_scans(n):
    near = RNG.integers(-50, 90, n)
    for data in (
        RNG.bytes(n), b"ab" * n, RNG.geometric(0.3, n).clip(0, 255).astype(np.uint8).tobytes(), near.cumsum(),
        near.astype(np.int16), RNG.integers(0, 2**63, n), np.zeros(n, np.uint32),
    ):  # fmt: skip
        frame = compress(data)
        assert frame == by_scans(compress, data)
        for back in (decompress(frame), by_scans(decompress, frame)):
            assert bytes(back) == bytes(data)


def test_real_files_shrink_and_come_back():
    here = Path(sysconfig.get_path("stdlib"))
    for name in ("argparse.py", "typing.py", "tokenize.py"):
        data = (here / name).read_bytes()
        frame = compress(data)
        assert decompress(frame) == data
        assert len(frame) < 0.65 * len(data)
    times = np.cumsum(RNG.integers(0, 100, 100_000))
    assert len(compress(times)) < len(zlib.compress(times.tobytes(), 1))


def test_every_cut_and_every_changed_byte_is_refused():
    for frame in (compress(b"scan all the things" * 40), compress(np.arange(0, 3000, 7))):
        for cut in range(0, len(frame), 3):
            with pytest.raises(CompressionError):
                decompress(frame[:cut])
        for at in range(0, len(frame), 5):
            with pytest.raises(CompressionError):
                decompress(frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :])
    for nonsense in (b"", b"x" * 100, zlib.compress(b"x")):
        with pytest.raises(CompressionError):
            decompress(nonsense)


@settings(max_examples=70)
@given(st.data(), st.sampled_from([b"by", b"i8", b"u2"]))
def test_forged_frames_are_refused_or_harmless(data, kind):
    good = compress(b"scan" * 300) if kind == b"by" else compress(np.arange(500, dtype=kind.decode()))
    body = bytearray(good[18:])
    for _ in range(data.draw(st.integers(1, 5))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    n = data.draw(st.sampled_from([0, 1, 500, 1200, 10**6, 2**63]))
    head = struct.pack("<4s2sQI", b"ups1", kind, n, 0)
    frame = struct.pack("<4s2sQI", b"ups1", kind, n, zlib.crc32(body, zlib.crc32(head))) + body
    for call in (decompress, lambda frame: by_scans(decompress, frame)):
        with contextlib.suppress(CompressionError):
            assert len(call(frame)) == n


def test_what_is_no_sequence_of_integers_is_refused():
    with pytest.raises(up.DTypeError):
        compress([1.5])
    with pytest.raises(up.ShapeError):
        compress([[1]])
