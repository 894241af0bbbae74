"""Scanning files larger than memory: .npy and Zarr, chunk by chunk, resumable after a kill.

The result grows in `<target>.part` beside a small file that says how far it is trustworthy, and takes its final name
only when it is whole. A run that finds both goes on where the last one stood.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from upsweep.api import Op, scan
from upsweep.arguments import axis_of, dtypes_of, result_dtypes
from upsweep.operator import as_operator
from upsweep.stream import Stream

CHUNK_BYTES = 1 << 24
"""GB/s both ways, a 1 GiB float32 file in the page cache: chunks of 4 MiB 3.3, 16 MiB 3.8, 64 MiB 3.6; a plain copy 5.1."""
_SAVE_SECONDS = 2.0

Progress = Callable[[int, int], None]


class FileError(ValueError):
    """A file that is neither .npy nor Zarr, or a partial result that belongs to another scan."""


def scan_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    initial: Any = None,
    dtype: Any = None,
    progress: Progress | None = None,
) -> Path:
    """Scan an array that lies in a file into another file, in memory of a few chunks: the bits of one `upsweep.scan`.

    Args:
        source: a `.npy` file or a Zarr array (a folder ending in `.zarr`), of any size and number of dimensions.
        target: where the result goes, of either kind. It appears when it is whole; until then it is `<target>.part`.
        op, axis, exclusive, initial, dtype: as in `upsweep.scan`.
        progress: called as `progress(done, total)` with numbers of items along the first axis.

    Returns:
        The path of the target. After an interruption, the same call goes on where the last one stood.

    Raises:
        FileError: unknown kinds of files, a Zarr target that exists already, or a partial result of another scan, which
            has to be deleted first.
        ShapeError, DTypeError, OperatorError: as in `upsweep.scan`, before anything is written.

    >>> import upsweep as up, numpy as np, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.arange(5))
    >>> np.load(up.scan_file(folder / "x.npy", folder / "y.npy")).tolist()
    [0, 1, 3, 6, 10]
    """
    with ExitStack() as files:
        return _scan_file(files, Path(source), Path(target), op, axis, exclusive, initial, dtype, progress)


def _scan_file(
    files: ExitStack, source: Path, target: Path, op: Op, axis: int | None, exclusive: bool, initial: Any, dtype: Any,
    progress: Progress | None,
) -> Path:  # fmt: skip
    if target.is_dir():
        raise FileError(f"{target} exists already: delete it, or choose another name")
    x = _open(files, source, source.suffix, "r")
    op = as_operator(op)
    axis = axis_of(axis, x.shape)
    if np.dtype(x.dtype).names:
        raise FileError("structured arrays are not scanned from files; scan each field's own file")
    (computed,) = result_dtypes((np.dtype(x.dtype),), dtypes_of(dtype))
    call = (_identity_of(source), str(target.suffix), op.key, axis, exclusive, _plain(initial), computed.str)
    part, notes = target.with_name(target.name + ".part"), target.with_name(target.name + ".state")
    progressed = _resume(call, part, notes)
    if progressed is None:
        _create(part, target.suffix, x, computed)
    y = _open(files, part, target.suffix, "r+")
    job = _Job(x, y, axis, op, exclusive, initial, dtype)
    for done, state in job.run(*(progressed or (0, None)), progress):
        if isinstance(y, _Npy):
            y.flush()
        _write(notes, pickle.dumps((call, done, state)))
    os.replace(part, target)
    notes.unlink(missing_ok=True)
    return target


class _Job(NamedTuple):
    """What is scanned into what: along the first axis as a stream, along any other slab by slab."""

    x: Any
    y: Any
    axis: int
    op: Any
    exclusive: bool
    initial: Any
    dtype: Any

    def run(self, done: int, state: Any, progress: Progress | None) -> Iterator[tuple[int, Any]]:
        """Scan from item `done` of the first axis; yields now and then how far it is, and the stream's state."""
        n, step = self.x.shape[0], self._step()
        stream = Stream(
            self.op,
            axis=self.axis,
            exclusive=self.exclusive,
            initial=self.initial,
            dtype=self.dtype,
            state=state,
        )
        saved = time.monotonic()
        while done < n:
            stop = min(n, (done // step + 1) * step)
            self._scan(stream, done, stop)
            done = stop
            if progress is not None:
                progress(done, n)
            if time.monotonic() - saved > _SAVE_SECONDS:
                yield done, stream.state if self.axis == 0 else None
                saved = time.monotonic()

    def _scan(self, stream: Stream, start: int, stop: int) -> None:
        chunk = self.x[start:stop]
        out = self.y.room(stop - start) if isinstance(self.y, _Npy) else None
        if self.axis == 0:
            self.y[start:stop] = stream.push(chunk, out=out)
            return
        initial = self.initial if np.ndim(self.initial) == 0 else np.asarray(self.initial)[start:stop]
        self.y[start:stop] = scan(
            chunk,
            self.op,
            axis=self.axis,
            exclusive=self.exclusive,
            initial=initial,
            dtype=self.dtype,
            out=out,
        )

    def _step(self) -> int:
        """Items of a chunk: a power of two, so that chunks are aligned, and whole chunks of a Zarr array."""
        row = max(1, int(np.prod(self.x.shape[1:])) * np.dtype(self.x.dtype).itemsize)
        step = 1 << max(0, (CHUNK_BYTES // row).bit_length() - 1)
        for array in (self.x, self.y):
            own = getattr(array, "chunks", None)
            if own:
                step = max(own[0], step // own[0] * own[0])
        return step


class _Npy:
    """A .npy file in C order that is read and written by the slice of its first axis. Plain reads and writes: a memory map
    takes a page fault for every 4 KiB and halves the speed of a scan."""

    def __init__(self, path: Path, mode: str) -> None:
        mapped = np.lib.format.open_memmap(path, mode="r")
        self.shape, self.dtype, offset = mapped.shape, mapped.dtype, mapped.offset
        if not mapped.flags.c_contiguous:
            raise FileError(f"{path} is in Fortran order: scan the transposed array, or save it in C order")
        self._file: Any = path.open(mode, buffering=0)
        self._offset = offset
        self._row = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        self._room = np.empty((0, *self.shape[1:]), self.dtype)

    def room(self, items: int) -> np.ndarray:
        """Memory for so many items, the same at every call: fresh memory costs a page fault for every 4 KiB too."""
        if len(self._room) < items:
            self._room = np.empty((items, *self.shape[1:]), self.dtype)
        return self._room[:items]

    def __getitem__(self, part: slice) -> np.ndarray:
        self._file.seek(self._offset + part.start * self._row)
        room = self.room(part.stop - part.start)
        left = memoryview(room.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while left:
            got = self._file.readinto(left)
            if not got:
                raise FileError(f"{self._file.name} is shorter than its header says")
            left = left[got:]
        return room

    def __setitem__(self, part: slice, values: np.ndarray) -> None:
        self._file.seek(self._offset + part.start * self._row)
        left = memoryview(np.ascontiguousarray(values).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while left:
            left = left[self._file.write(left) :]

    def flush(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _open(files: ExitStack, path: Path, suffix: str, mode: Any) -> Any:
    if suffix == ".npy":
        npy = _Npy(path, "rb" if mode == "r" else "rb+")
        files.callback(npy.close)
        return npy
    if suffix == ".zarr":
        return _zarr().open_array(path, mode=mode)
    raise FileError(f"{path} ends neither in .npy nor in .zarr")


def _create(path: Path, suffix: str, x: Any, dtype: np.dtype) -> None:
    if suffix == ".npy":
        np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=x.shape)  # a header and a hole
    elif suffix == ".zarr":
        own = getattr(x, "chunks", None)
        _zarr().open_array(path, mode="w", shape=x.shape, dtype=dtype, **({"chunks": own} if own else {}))
    else:
        raise FileError(f"{path.with_suffix('')} ends neither in .npy nor in .zarr")


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as missing:
        raise FileError("Zarr arrays need a package that is not here: pip install zarr") from missing
    return zarr


def _resume(call: Any, part: Path, notes: Path) -> tuple[int, Any] | None:
    """How far an earlier run of the same call came."""
    if not (part.exists() and notes.exists()):
        return None
    known, done, state = pickle.loads(notes.read_bytes())
    if known != call:
        raise FileError(f"{part} belongs to another scan: delete it and {notes} to start anew")
    return done, state


def _write(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that a kill leaves the old one or the new one."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def _identity_of(source: Path) -> tuple[Any, ...]:
    seen = source.stat()
    return (str(source.resolve()), seen.st_size, seen.st_mtime_ns)


def _plain(initial: Any) -> Any:
    return None if initial is None else (np.asarray(initial).dtype.str, np.asarray(initial).tobytes())
