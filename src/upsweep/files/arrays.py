"""The arrays that are read and written: .npy and Zarr arrays, and columns that lie in plain files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

ARRAYS = (".npy", ".zarr")
TABLES = (".csv", ".parquet")
CODECS = {".gz": "gzip", ".zst": "zstd"}


class FileError(ValueError):
    """A file of an unknown kind, a missing column, a target that exists, or a file that another process is at work on."""


def bare(path: Path) -> Path:
    """The name without .gz or .zst.

    >>> bare(Path("prices.csv.zst")).name
    'prices.csv'
    """
    return path.with_suffix("") if path.suffix in CODECS else path


def is_zarr(path: Path) -> bool:
    """Whether this is a Zarr array by its name, or a folder within one of that name, as the arrays of a group are."""
    return path.suffix == ".zarr" or (path.is_dir() and any(p.suffix == ".zarr" for p in path.parents))


def check_names(source: Path, target: Path, overwrite: bool) -> None:
    for path in (target,) if is_zarr(source) else (source, target):
        kind = bare(path).suffix
        if kind not in (*ARRAYS, *TABLES) or (kind == ".zarr" and path.suffix != kind):
            raise FileError(
                f"{path} is neither {' nor '.join((*ARRAYS, *TABLES))}, nor one of these files with .gz or .zst behind it"
            )
    if not source.exists():
        raise FileError(f"there is no file {source}")
    if not (source.is_file() or is_zarr(source)):
        # A named pipe for instance, which cannot be read twice.
        raise FileError(f"{source} is no plain file: copy it into one, or pass - for standard input")
    if bare(source).suffix not in TABLES and bare(target).suffix in TABLES:
        raise FileError(f"an array goes to a .npy or .zarr file, not to {target.name}")
    if target.is_dir() and not _is_array(target):
        raise FileError(f"{target} exists already: delete it, or choose another name")
    if target.exists() and not overwrite:
        raise FileError(
            f"{target} exists already: choose another name, or replace it by overwrite=True (--force)"
        )


def _is_array(folder: Path) -> bool:
    """Whether a folder is a Zarr array, and no group that may hold others."""
    if folder.suffix != ".zarr":
        return False
    try:
        zarr_array(folder)
    except (FileError, OSError, ValueError):
        return False
    return True


def content(values: Any) -> Any:
    """A text that tells values, or the file that holds them, from others."""
    if isinstance(values, (str, os.PathLike)):
        path = Path(values)
        return (str(values), path.stat().st_mtime_ns if path.exists() else 0)
    array = np.ascontiguousarray(values)
    if array.dtype == object:
        return sha256(repr(array.tolist()).encode()).hexdigest()
    bytes_: Any = array.reshape(-1).view(np.uint8)
    return (array.dtype.str, array.shape, sha256(bytes_).hexdigest())


@dataclass
class Source:
    """The source of a scan: components of one shape that are read together."""

    shape: tuple[int, ...]
    dtypes: tuple[np.dtype, ...]
    names: tuple[str, ...]
    """The names of columns, or of fields of records; none for plain arrays."""
    files: tuple[Any, ...]
    turned: bool = False
    """Whether the file is in Fortran order: then it holds the transpose of the array that the user sees."""
    chunks: tuple[int, ...] | None = None

    @property
    def layout(self) -> tuple[int, ...]:
        """The shape in the order of the file."""
        return self.shape[::-1] if self.turned else self.shape

    def read(self, index: tuple[slice, ...]) -> tuple[np.ndarray, ...]:
        parts = tuple(file[index] for file in self.files)
        return tuple(parts[0][name] for name in self.names) if parts[0].dtype.names else parts


def opened(files: ExitStack, path: Path, columns: tuple[str, ...]) -> Source:
    """An array."""
    if is_zarr(path):
        array = zarr_array(path)
        own = Source(array.shape, (array.dtype,), (), (array,), chunks=array.chunks)
    else:
        npy = files.enter_context(Plain.of_npy(path, "rb"))
        own = Source(npy.user_shape, (npy.dtype,), (), (npy,), npy.turned)
    names = own.dtypes[0].names
    if columns and not names:
        raise FileError(f"columns are for tables and records; {path.name} holds one array")
    if names:
        own.names = chosen(names, columns or names)
        own.dtypes = tuple(own.dtypes[0][name] for name in own.names)
    return own


def columns(
    files: ExitStack, names: tuple[str, ...], paths: list[Path], dtypes: tuple[np.dtype, ...]
) -> Source:
    """Columns that lie in plain files."""
    n = paths[0].stat().st_size // dtypes[0].itemsize
    opened = tuple(files.enter_context(Plain(path, "rb", (n,), d, 0)) for path, d in zip(paths, dtypes))
    return Source((n,), dtypes, names, opened)


def chosen(have: tuple[str, ...], asked: tuple[str, ...]) -> tuple[str, ...]:
    for name in asked:
        if name not in have:
            raise FileError(f"there is no column {name!r}; there are {', '.join(have)}")
    return asked


def create(path: Path, x: Source, names: tuple[str, ...], dtypes: tuple[np.dtype, ...]) -> None:
    """Space for the result: a header and a hole."""
    dtype = _together(names, dtypes)
    if path.suffix == ".zarr":
        if dtype.names:
            raise FileError("several columns make an array of records: pass a target that ends in .npy")
        layout = {"chunks": x.chunks} if x.chunks else {}
        _zarr().open_array(path, mode="w", shape=x.shape, dtype=dtype, **layout)
        return
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": x.turned,
        "shape": x.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        file.truncate(file.tell() + prod(x.shape) * dtype.itemsize)


def _together(names: tuple[str, ...], dtypes: tuple[np.dtype, ...]) -> np.dtype:
    return dtypes[0] if len(dtypes) == 1 else np.dtype(list(zip(names, dtypes)))


class Result:
    """The target, which is written a block at a time."""

    def __init__(self, file: Any, dtype: np.dtype, chunks: tuple[int, ...] | None) -> None:
        self._file, self._dtype, self.chunks = file, dtype, chunks
        self._room, self._block = np.empty(0, dtype), np.empty(0, dtype)

    def room(self, index: tuple[slice, ...]) -> tuple[np.ndarray, ...]:
        """Memory for a block, the same at every call: fresh memory costs a page fault for every 4 KiB."""
        shape = tuple(s.stop - s.start for s in index)
        if self._room.size < prod(shape):
            self._room = np.empty(prod(shape), self._dtype)
        self._block = self._room[: prod(shape)].reshape(shape)
        names = self._dtype.names
        return tuple(self._block[name] for name in names) if names else (self._block,)

    def write(self, index: tuple[slice, ...]) -> None:
        """Write the memory of `room` into the file."""
        self._file[index] = self._block

    def flush(self) -> None:
        if isinstance(self._file, Plain):
            self._file.flush()


class _Turned:
    """A Zarr array, written in the order of a source that holds the transpose."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __setitem__(self, index: tuple[slice, ...], block: np.ndarray) -> None:
        self._array[index[::-1]] = block.T


def result(
    files: ExitStack, path: Path, x: Source, names: tuple[str, ...], dtypes: tuple[np.dtype, ...]
) -> Result:
    """The result that `create` made room for."""
    dtype = _together(names, dtypes)
    if path.suffix == ".zarr":
        array = _zarr().open_array(path, mode="r+")
        return (
            Result(_Turned(array), dtype, array.chunks[::-1])
            if x.turned
            else Result(array, dtype, array.chunks)
        )
    return Result(files.enter_context(Plain.of_npy(path, "rb+")), dtype, None)


class Plain:
    """An array in C order that fills the rest of a file. Plain reads and writes of contiguous blocks: a memory map takes a
    page fault for every 4 KiB and halves the speed of a scan."""

    turned = False

    def __init__(self, path: Path, mode: str, shape: tuple[int, ...], dtype: np.dtype, offset: int) -> None:
        self.shape = self.user_shape = shape
        self.dtype, self._offset = dtype, offset
        self._file: Any = path.open(mode, buffering=0)
        self._room = np.empty(0, dtype)

    @classmethod
    def of_npy(cls, path: Path, mode: str) -> Plain:
        with path.open("rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                first = version == (1, 0)
                read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(file)
            except ValueError as error:
                raise FileError(f"{path} is no .npy file: {error}") from None
            offset = file.tell()
        turned = fortran and len(shape) > 1
        made = cls(path, mode, shape[::-1] if turned else shape, dtype, offset)
        made.user_shape, made.turned = shape, turned
        return made

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        shape = self._find(index)
        if self._room.size < prod(shape):
            self._room = np.empty(prod(shape), self.dtype)
        block = self._room[: prod(shape)]
        left = memoryview(block.view(np.uint8))  # type: ignore[arg-type]
        while left:
            got = self._file.readinto(left)
            if not got:
                raise FileError(f"{self._file.name} is shorter than its header says")
            left = left[got:]
        return block.reshape(shape)

    def __setitem__(self, index: tuple[slice, ...], block: np.ndarray) -> None:
        self._find(index)
        left = memoryview(block.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while left:
            left = left[self._file.write(left) :]

    def _find(self, index: tuple[slice, ...]) -> tuple[int, ...]:
        """Go to where a block starts; its shape."""
        item = 0
        for n, part in zip(self.shape, index):
            item = item * n + part.start
        self._file.seek(self._offset + item * self.dtype.itemsize)
        return tuple(part.stop - part.start for part in index)

    def flush(self) -> None:
        os.fsync(self._file.fileno())


def zarr_array(path: Path) -> Any:
    """An array in a folder."""
    found = _zarr().open(path, mode="r")
    if not hasattr(found, "shape"):
        names = ", ".join(found.array_keys())
        raise FileError(
            f"{path} is no array but a group of them ({names}): pass one, such as {path}/..., or open the group by "
            "xarray.open_zarr, whose arrays upsweep.xarray scans chunk by chunk"
        )
    return found


def along_axis(path: str | os.PathLike[str]) -> Any:
    """The values in a file that say of each item where segments start, or which group it is of."""
    path = Path(path)
    return zarr_array(path) if path.suffix == ".zarr" else np.load(path, mmap_mode="r", allow_pickle=False)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as missing:
        raise FileError("Zarr arrays need a package that is not here: pip install zarr") from missing
    return zarr
