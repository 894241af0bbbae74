"""One case: a call of upsweep on memory that the fuzzer laid out, and the bytes that the memory must hold afterwards."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import plain
import pytest
from draw import Kernel, accumulated, ends_of, heads_of, highest, kernel, lowest, numbers, shape_of, spelt
from places import Emulated, Place, layout, libraries

import upsweep as up
from upsweep.engine import ENGINES

POOL = 14
"""Kernels of a run. They are compiled one after another as the run goes on, each for rows and for columns."""
EACH = 150
"""Cases from one new kernel to the next."""


def draws(engine: str) -> int:
    """How often data are drawn for one case. A call like one before goes a shorter way, where the engine remembers calls. On a
    GPU each layout is a kernel of its own, which takes a second to compile."""
    return 5 if ENGINES[engine].place == "cuda" else 2 if ENGINES[engine].again else 1


class Difference(AssertionError):
    """The result of upsweep is not that of the oracle."""


class Run:
    """All cases of a seed: case k is the same, whenever it runs and whatever ran before it."""

    def __init__(self, seed: int, engine: str = "cpu", device: Any = None) -> None:
        """`device` is the emulator, where it stands for the GPU of engine "cuda"."""
        self.seed, self.engine, self.device = seed, engine, device
        self.libraries = libraries(engine) if device is None else [Emulated(device)]

    def kernel(self, index: int) -> Kernel:
        drawn = kernel(np.random.default_rng([self.seed, 1, index]), self.known, self.engine)
        if self.device is not None:
            drawn = drawn._replace(chunk=min(drawn.chunk, 4096))
        # Streams and recurrences run where "auto" says.
        return drawn if self.engine in ("cpu", "cuda") else drawn._replace(streams=False, recurrence=False)

    def known(self, dtype: np.dtype) -> bool:
        return any(library.takes(dtype) for library in self.libraries)

    def case(self, number: int) -> Case:
        rng = np.random.default_rng([self.seed, 0, number])
        index = int(rng.integers(min(POOL, 2 + number // EACH)))
        # The emulator takes as long for a known kernel in another layout as for a new one.
        kernel = self.kernel(index if self.device is None else number)
        return Case(rng, kernel, self.libraries, self.engine)

    def check(self, number: int) -> None:
        """Raises a Difference that names the command which shows it again."""
        case = None
        emulated = self.device is not None
        try:
            case = self.case(number)
            small = (
                small_tiles(self.device, number) if emulated else small_chunks(self.engine, case.kernel.chunk)
            )
            with small, np.errstate(all="ignore"):
                for _ in range(2 if emulated else draws(self.engine)):
                    case.check()
        except Exception as wrong:
            name = "emulated" if emulated else self.engine
            again = f"python tests/fuzz --engine {name} --seed {self.seed} --case {number}"
            raise Difference(f"{type(wrong).__name__}: {wrong}\n{case}\nagain: {again}") from wrong


@contextmanager
def small_chunks(engine: str, chunk: int) -> Iterator[None]:
    """Chunks, tiles and threads are small enough for inputs that the oracle can scan in a moment."""
    if engine != "cpu":
        yield
        return
    from upsweep import recall
    from upsweep.cpu import tuning

    # An earlier call may have had larger chunks.
    recall.forget()
    kept = tuning.ROWS, tuning.PARALLEL_BYTES, tuning.FAR_BYTES
    if chunk < kept[0].chunk:
        tuning.ROWS = kept[0]._replace(chunk=chunk, tile=4 * chunk * 8)
    tuning.PARALLEL_BYTES = tuning.FAR_BYTES = 0
    try:
        yield
    finally:
        tuning.ROWS, tuning.PARALLEL_BYTES, tuning.FAR_BYTES = kept


SMALL_TILES = {
    "shapes.rows": {"FEW_BYTES": 0},
    "shapes.tiles": {"SMALL": 0},
    "shapes.bringing": {"LEAST": 0, "PART": 1 << 12, "PART_SIDE": 1},
    "crosswise": {"LEAST": 0},
    "shortwise": {"STEPPED_LEAST": 1},
    "stepwise": {"STEPPED_LEAST": 1},
    "shapes.reductions": {"BLOCK": (1 << 12, 4)},
    "shapes.crosswise": {
        "WALKED": {1: (64, 0), 2: (64, 0), 4: (32, 0), 8: (32, 0), 16: (16, 0)}, "WALKED_WIDE": {4: (64, 0)}, "REDUCED": (8, 0),
    },
    "shapes.walks": {
        "ROOM": 0, "MULTIPROCESSORS": 1, "VECTOR_ROWS": 64, "SINGLE_ROWS": 128, "LOOSE_ROWS": 64, "LONG": 100, "TREE_WALKERS": 1,
    },
    "batches": {"BATCHED_ROWS": 16},
    "steps": {"WALKED": 32},
    "columns": {"_fill": lambda made: True, "FLAT_LEAST": 0},
}  # fmt: skip
"""By module of the CUDA engine: sizes from which on a scan takes another way, so small that inputs of the fuzzer reach them."""


@contextmanager
def small_tiles(device: Any, number: int) -> Iterator[None]:
    """The emulator takes the ways of small scans in every third case, of large ones in the others."""
    from upsweep.gpu import reduction

    device.forget()
    reduction._parts.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for module, sizes in SMALL_TILES.items() if number % 3 else ():
            for name, size in sizes.items():
                patch.setattr(f"upsweep.gpu.{module}.{name}", size)
        yield


class Case:
    def __init__(self, rng: np.random.Generator, kernel: Kernel, known: list[Any], engine: str) -> None:
        self.rng, self.kernel, self.engine = rng, kernel, engine
        law = kernel.law
        self.shape, self.axis = shape_of(rng, kernel.chunk)
        self.rows = self.shape[: self.axis] + self.shape[self.axis + 1 :]
        fitting = [k for k in known if all(map(k.takes, (*kernel.loads, *kernel.stores)))]
        self.library = fitting[rng.integers(len(fitting))]
        self._forms()
        self.reduces = self.forms[2]
        self.out_shape = self.rows if self.reduces else self.shape
        takes_all = self.reduces and kernel.fused and not kernel.fused.reduces
        self.finish = kernel.fused and not takes_all and kernel.fused.finish
        results = kernel.fused.results if self.finish else law.parts
        self.kept = [1] if kernel.recurrence else list(range(results))
        # Functions within a scan have one dtype throughout.
        self.stores = (kernel.stores[0],) * results if kernel.fused else kernel.stores
        self.gives_out = kernel.stores != kernel.computed or rng.random() < 0.6
        self._initial()
        self._lay_out()
        self.threads = int(rng.choice([1, 2, 3, 5])) if rng.random() < 0.4 else None
        self.streams = kernel.streams and not self.reduces and rng.random() < 0.7
        if self.streams:
            self.reverse = False

    def _forms(self) -> None:
        """Whether the scan is exclusive, has an initial value, is a reduction; and whether it is reversed."""
        kernel, rng = self.kernel, self.rng
        exclusive, initial, reduces = (bool(f) for f in rng.random(3) < (0.5, 0.4, 0.15))
        if kernel.order == "sequential":
            exclusive, initial, reduces = kernel.forms
        elif kernel.segmented:
            initial = kernel.initial
        reduces = reduces and not kernel.segmented and not kernel.recurrence
        exclusive = exclusive and not reduces and not kernel.recurrence
        n = self.shape[self.axis]
        if self.identity() is None and ((exclusive and n) or (reduces and not n)):
            exclusive, reduces = exclusive and initial, reduces and initial
        self.forms, self.reverse = (exclusive, initial, reduces), bool(rng.random() < 0.4)

    def identity(self) -> Any:
        """The value as one number for each component."""
        law, wide = self.kernel.law, [accumulated(d) for d in self.kernel.computed]
        if law.op == "affine":
            return tuple(d.type(v) for d, v in zip(wide, (1, 0)))
        if law.identity is None:
            return None
        if self.kernel.computed[0].kind in "mM" and law.identity in (lowest, highest):
            info = np.iinfo("i8")
            return (np.int64(info.min + (law.times is not None) if law.identity is lowest else info.max),)
        if law.op == "and" and wide[0].kind == "u":
            return (np.array(~wide[0].type(0)),)
        return (wide[0].type(law.identity(wide[0])),)

    def _initial(self) -> None:
        """A start in the dtype that is computed with: a number, or one number for each row."""
        kernel, rng = self.kernel, self.rng
        self.start = None
        if not self.forms[1]:
            return
        calm = kernel.law.close
        scalar = rng.random() < 0.5
        values = [numbers(rng, d, () if scalar else self.rows, calm)[...] for d in kernel.computed]
        if kernel.recurrence:
            values[0] = np.ones((), kernel.computed[0])[...]
        self.start = tuple(values)

    def _lay_out(self) -> None:
        kernel, rng = self.kernel, self.rng
        tame = self.library.tame
        sizes = [d.itemsize for d in (*kernel.inputs, *self.stores)]
        unit = max(sizes) if tame else 1
        end = int(rng.integers(64, 128)) // 16 * 16 + (0 if tame else int(rng.integers(16)))
        self.xs, self.ys = [], []
        for d in kernel.inputs:
            lay = layout(rng, self.shape, d.itemsize, tame, repeats=True)
            swapped = (
                not tame and self.library.takes(d.newbyteorder(">")) and d.itemsize > 1 and d.isbuiltin == 1
            )
            if swapped and rng.random() < 0.05:
                d = d.newbyteorder(">")
            self.xs.append(Place(d, self.shape, lay.strides, end - lay.low))
            end += (lay.high - lay.low) // 16 * 16 + 16 + (0 if tame else int(rng.integers(40)))
        over = set()
        for c in self.kept if self.gives_out else ():
            d, x = self.stores[c], self.xs[rng.integers(len(self.xs))]
            free = self.out_shape == self.shape and 0 not in x.strides and x.dtype.itemsize == d.itemsize
            # The result lies over an input, or next to it.
            if free and rng.random() < 0.35 and x not in over:
                over.add(x)
                # A stream does not know the chunks to come, so a shifted result would lie over them.
                beside = len(self.kept) == 1 and not kernel.streams
                by = int(rng.choice([0, 0, 0, 1, -1, 3, -3])) * d.itemsize if beside else 0
                if by and not tame and rng.random() < 0.2:
                    by = 1
                self.ys.append(Place(d, self.shape, x.strides, x.offset + by))
                continue
            lay = layout(rng, self.out_shape, d.itemsize, tame, repeats=False)
            self.ys.append(Place(d, self.out_shape, lay.strides, end - lay.low))
            end += (lay.high - lay.low) // 16 * 16 + 32 + (0 if tame else int(rng.integers(40)))
        self.size = (end + 128) // unit * unit

    def __str__(self) -> str:
        kernel, (exclusive, initial, reduces) = self.kernel, self.forms
        name = getattr(kernel.law.op, "__name__", kernel.law.op)
        return (
            f"{name} of {', '.join(map(str, kernel.loads))} in {', '.join(map(str, kernel.computed))} as "
            f"{', '.join(map(str, self.stores))}; shape={self.shape} axis={self.axis} order={kernel.order} "
            f"{exclusive=} {initial=} {reduces=} reverse={self.reverse} segmented={kernel.segmented} "
            f"recurrence={kernel.recurrence} {kernel.fused=} stream={self.streams} {kernel.chunk=} threads={self.threads} "
            f"{type(self.library).__name__}\nstart={self.start}\nin {self.xs}\nout {self.ys if self.gives_out else 'new'}"
        )

    # --- running it ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        rng, kernel = self.rng, self.kernel
        self.heads = heads_of(rng, self.shape, self.axis) if kernel.segmented else None
        buffer = rng.integers(0, 256, self.size, np.uint8)
        for place in self.xs:
            if 0 not in place.shape:
                first = tuple(slice(0, 1) if s == 0 else slice(None) for s in place.strides)
                place.of(buffer)[first] = numbers(
                    rng, place.dtype.newbyteorder("="), place.shape, kernel.law.close
                )[first]
        data = [np.array(place.of(buffer), place.dtype.newbyteorder("=")) for place in self.xs]
        memory = self.library.send(buffer.copy())
        arrays = [self.library.array(memory, place) for place in self.xs]
        if type(self.library).__name__ == "NumPy" and not self.gives_out and rng.random() < 0.3:
            for x in arrays:
                x.flags.writeable = False
        outs = [self.library.array(memory, place) for place in self.ys]
        if not self.streams and rng.random() < 0.2:
            self._number(arrays, data)
        got = self._streamed(arrays, outs) if self.streams else self._called(arrays, outs)
        want = self._wanted(data)
        after = self.library.fetch(memory).copy()
        results = [place.of(after) for place in self.ys] if self.gives_out else got
        for c, have, correct in zip(self.kept, results, want):
            self._compare(c, have, correct)
        for place in self.ys if self.gives_out else ():
            place.of(after)[...] = place.of(buffer)
        beside = np.flatnonzero(after != buffer)
        if len(beside):
            raise Difference(
                f"{len(beside)} bytes beside the results were written, the first at {beside[0]} of the buffer"
            )

    def _number(self, arrays: list[Any], data: list[np.ndarray]) -> None:
        """A number in the place of an array: the multiplier of a recurrence, or the last input of a map."""
        kernel = self.kernel
        if not (kernel.recurrence or kernel.fused):
            return
        which = 0 if kernel.recurrence else -1
        value = numbers(self.rng, data[which].dtype, (), kernel.law.close)
        arrays[which], data[which] = value[()], np.full(self.shape, value)

    def _given_initial(self) -> Any:
        """Starts as numbers of Python or NumPy, or as arrays."""
        assert self.start is not None
        bare = [s[()] if s.ndim == 0 else s for s in self.start]
        if self.rng.random() < 0.3 and all(s.ndim == 0 and s.dtype.kind in "biufc" for s in self.start):
            bare = [s.item() for s in self.start]
        return tuple(bare) if self.kernel.law.parts > 1 else bare[0]

    def _functions(self) -> dict[str, Any]:
        """The map and the finish, where there are."""
        fused = self.kernel.fused
        return {} if not fused else {"map": fused.map} | ({"finish": self.finish} if self.finish else {})

    def _called(self, xs: list[Any], outs: list[Any]) -> list[np.ndarray]:
        kernel, (exclusive, initial, reduces) = self.kernel, self.forms
        how = {"axis": self.axis, "order": kernel.order, "reverse": self.reverse}
        if initial:
            how["initial"] = self._given_initial()
        one, segments = len(xs) == 1, None
        how |= self._functions()
        if self.heads is not None:
            segments, _ = spelt(self.rng, self.heads, self.axis)
        if outs:
            how["out"] = outs[0] if len(outs) == 1 else tuple(outs)
        if kernel.recurrence:
            if initial:
                # The oracle starts from a tuple, whose second component is the state.
                how["initial"] = how["initial"][1]
            got = up.linear_recurrence(*xs, segments=segments, **how)
        else:
            if kernel.computed != kernel.loads:
                how["dtype"] = kernel.computed[0]
            if not reduces:
                how |= {"exclusive": exclusive, "segments": segments}
            call = up.reduce if reduces else up.scan
            got = call(
                xs[0] if one else tuple(xs), kernel.law.op, threads=self.threads, engine=self.engine, **how
            )
        if outs and got is not how["out"]:
            raise Difference("what is returned is not `out`")
        return [] if outs else [self.library.values(g) for g in (got if isinstance(got, tuple) else (got,))]

    def _streamed(self, xs: list[Any], outs: list[Any]) -> list[np.ndarray]:
        """Chunk by chunk. At times a new stream goes on from the pickled state of the one before."""
        rng, heads, kernel, (exclusive, initial, _) = self.rng, self.heads, self.kernel, self.forms
        how: dict[str, Any] = {"axis": self.axis, "exclusive": exclusive, "order": kernel.order}
        if initial:
            how["initial"] = self._given_initial()
        how |= self._functions()
        stream = up.Stream(kernel.law.op, **how)
        n = self.shape[self.axis]
        cuts = np.sort(rng.integers(0, n + 1, rng.integers(6)))
        starts, travels, parts = [0, *cuts.tolist()], rng.random() < 0.5, []
        told = None if heads is None else Told(rng, heads, self.axis)
        for start, stop in zip(starts, [*starts[1:], n]):
            along = (slice(None),) * self.axis + (slice(start, stop),)
            segments = None if told is None else told.of(start, stop)
            chunk = tuple(x[along] for x in xs)
            out = tuple(y[along] for y in outs)
            parts.append(
                stream.push(
                    chunk if len(chunk) > 1 else chunk[0], segments=segments,
                    out=None if not out else out if len(out) > 1 else out[0],
                )
            )  # fmt: skip
            if travels:
                stream = up.Stream(kernel.law.op, state=pickle.loads(pickle.dumps(stream.state)), **how)
        self.heads = None if told is None else told.used
        parts = [p if isinstance(p, tuple) else (p,) for p in parts]
        return [
            np.concatenate([self.library.values(p[c]) for p in parts], self.axis)
            for c in range(len(self.kept) if not outs else 0)
        ]

    def _wanted(self, data: list[np.ndarray]) -> list[np.ndarray]:
        """The oracle's results, in the dtypes of the results."""
        kernel, heads, (exclusive, _, reduces) = self.kernel, self.heads, self.forms
        wide = [accumulated(d) for d in kernel.computed]
        given, fused = data, kernel.fused
        index = np.arange(self.shape[self.axis]).reshape(-1, *(1,) * (len(self.shape) - self.axis - 1))
        if fused:
            made = fused.map(*data, *[index] * fused.map_placed)
            data = list(made) if isinstance(made, tuple) else [made]
        along = [np.moveaxis(_numbers(x), self.axis, 0).astype(w) for x, w in zip(data, wide)]
        n = self.shape[self.axis]
        flags = np.zeros((n,) + (1,) * len(self.rows), bool)
        if heads is not None:
            flags = (
                np.moveaxis(heads, self.axis, 0)
                if heads.ndim > 1
                else heads.reshape(-1, *(1,) * len(self.rows))
            )
        if self.reverse:
            along = [x[::-1] for x in along]
            flags = np.roll(flags[::-1], 1, 0)
        start = None
        if self.start is not None:
            start = tuple(np.broadcast_to(_numbers(s).astype(w), self.rows) for s, w in zip(self.start, wide))
        items = [tuple(x[i] for x in along) for i in range(n)]
        op = kernel.law.plain
        if kernel.computed[0].kind in "mM" and kernel.law.times is not None:
            op = kernel.law.times
        marks = [np.broadcast_to(f, self.rows) for f in flags] if self.rows else [bool(f) for f in flags]
        nothing = self.identity()
        if nothing is not None:
            nothing = tuple(np.broadcast_to(v, self.rows) for v in nothing)
        prefixes = plain.scan(op, items, marks, start, nothing, exclusive=exclusive, order=kernel.order)
        if reduces:
            total = prefixes[-1] if prefixes else start if start is not None else nothing
            whole = [np.asarray(np.broadcast_to(part, self.rows)) for part in total]
            return self._finished(whole, []) if self.finish else [whole[c] for c in self.kept]
        results = []
        for c in range(kernel.law.parts) if self.finish else self.kept:
            y = np.empty((n, *self.rows), wide[c])
            for i, prefix in enumerate(prefixes):
                y[i] = prefix[c]
            results.append(np.moveaxis(y[::-1] if self.reverse else y, 0, self.axis))
        if self.finish:
            return self._finished(results, [*given, *[index] * fused.finish_placed])
        return results

    def _finished(self, prefixes: list[np.ndarray], given: list[np.ndarray]) -> list[np.ndarray]:
        """The results of the finish."""
        given = [] if self.kernel.fused.reduces else given
        made = self.finish(prefixes[0] if len(prefixes) == 1 else prefixes, *given)
        return list(made) if isinstance(made, tuple) else [made]

    def _compare(self, c: int, have: np.ndarray, correct: np.ndarray) -> None:
        store = self.stores[c]
        if have.shape != correct.shape or have.dtype != store:
            raise Difference(f"{have.dtype} of {have.shape}, not {store} of {correct.shape}")
        wanted = rounded(correct, store)
        have = np.ascontiguousarray(_numbers(have)).reshape(have.shape)
        same = alike(have, wanted, self.kernel.law.close)
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            raise Difference(
                f"part {c}, item {at}: {have[at]!r}, not {wanted[at]!r}; {(~same).sum()} of {same.size} differ"
            )


class Told:
    """How a stream is told of segments, chunk by chunk: by keys or by ends throughout, or in another spelling each time.

    `used` are the heads that come of it.
    """

    def __init__(self, rng: np.random.Generator, heads: np.ndarray, axis: int) -> None:
        self.rng, self.heads, self.axis = rng, heads, axis if heads.ndim > 1 else 0
        self.rank_axis, self.used = axis, heads.copy()
        self.ended = np.zeros_like(np.moveaxis(heads, self.axis, 0)[:1])
        numbers = np.cumsum(heads, self.axis).astype("U").astype(object)
        throughout = [None, up.segments.keys(numbers), up.segments.ends(ends_of(rng, heads, self.axis))]
        self.throughout = throughout[rng.integers(3)]

    def of(self, start: int, stop: int) -> Any:
        """Segments of the next chunk."""
        here = (slice(None),) * self.axis + (slice(start, stop),)
        if self.throughout is not None:
            return up.segments.Segments(self.throughout.spelling, self.throughout.values[here])
        if start == stop:
            return None
        segments, _ = spelt(self.rng, self.heads[here], self.rank_axis)
        if segments.spelling == "keys":  # which start one where those of the last chunk with keys differ
            segments = up.segments.flags(self.heads[here])
        silent = self.rng.random() < 0.15
        used = np.moveaxis(self.used, self.axis, 0)[start:stop]
        if silent:
            segments, used[...] = None, False
        first = used[:1] & (not silent and segments.spelling == "flags")
        used[:1] = self.ended | first | (not silent and segments.spelling in ("offsets", "lengths"))
        self.ended = np.zeros_like(self.ended)
        if not silent and segments.spelling == "ends":
            self.ended = np.moveaxis(segments.values, self.axis, 0)[-1:] != 0
        return segments


def _numbers(x: np.ndarray) -> np.ndarray:
    return x.view("i8") if x.dtype.kind in "mM" else x


def rounded(x: np.ndarray, store: np.dtype) -> np.ndarray:
    """Round once, also where ml_dtypes goes from float64 by way of float32."""
    if store.kind in "mM":
        return x.astype("i8")
    if store.isbuiltin == 2 and x.dtype == np.float64:
        near = x.astype("f4")
        further = np.abs(near.astype("f8")) > np.abs(x)
        near = np.where(further, np.nextafter(near, np.float32(0)), near)
        bits = near.view("u4") | (near.astype("f8") != x)
        x = bits.view("f4")
    return np.asarray(x).astype(store)


def alike(a: np.ndarray, b: np.ndarray, close: bool) -> np.ndarray:
    """Compare bit for bit, but take any NaN for any other."""
    if a.dtype.kind == "c":
        return alike(a.real, b.real, close) & alike(a.imag, b.imag, close)
    # ml_dtypes' floats.
    if a.dtype.isbuiltin == 2:
        a, b = a.astype("f4"), b.astype("f4")
    if a.dtype.kind != "f":
        return a == b
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    if close:
        same |= np.abs(a - b) <= (1e-5 if a.itemsize < 8 else 1e-12) * np.maximum(1, np.abs(b))
    return same
