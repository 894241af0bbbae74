"""Draw the pictures of the applications from what their pages compute: `python docs/applications/pictures.py` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
STATEMENT = re.compile(r"^(?:>>>|\.\.\.) ?(.*)$", re.MULTILINE)
OURS, SEEN = "#cb3c33", "#9fb4c7"


def computed(page: str) -> dict[str, Any]:
    """The names of a page's examples."""
    names: dict[str, Any] = {}
    for snippet in SNIPPET.findall((HERE / f"{page}.md").read_text(encoding="utf-8")):
        exec("\n".join(STATEMENT.findall(snippet)), names)
    return names


def histograms(page: dict[str, Any], left: Any) -> None:
    left.bar(range(256), page["counts"], width=1, color=SEEN)
    left.set(xlabel="brightness of green", ylabel="pixels")
    right = left.twinx()
    right.plot(np.cumsum(page["counts"]) / page["green"].size, color=OURS)
    right.set(ylabel="share that is at most as bright", ylim=(0, 1))


def areas(page: dict[str, Any], axes: Any) -> None:
    axes.imshow(page["blurred"], cmap="gray")
    axes.set_axis_off()


def averages(page: dict[str, Any], axes: Any) -> None:
    data = page["data"]
    axes.plot(data.index, data, color=SEEN, label="weekly")
    axes.plot(data.index, page["smooth"], color=OURS, label="average, halved in a year")
    axes.set(ylabel="carbon dioxide, ppm")
    axes.legend()


def filters(page: dict[str, Any], axes: Any) -> None:
    years = 1700 + np.arange(len(page["yearly"]))
    axes.plot(years, page["yearly"], color=SEEN, label="sunspots")
    axes.plot(years, page["slow"], color=OURS, label="slower than 20 years")
    axes.legend()


def kalman(page: dict[str, Any], axes: Any) -> None:
    years, level = 1871 + np.arange(100), page["level"][:, 0]
    wide = 1.64 * np.sqrt(page["spread"][:, 0, 0])
    axes.plot(years, page["seen"], ".", color="#555", label="measured")
    axes.plot(years[1:], level[1:], color=OURS, label="filtered level")
    axes.fill_between(years[1:], (level - wide)[1:], (level + wide)[1:], color=OURS, alpha=0.15, label="90 %")
    axes.set(ylabel="$10^8 m^3$ a year")
    axes.legend()


def hidden_markov(page: dict[str, Any], axes: Any) -> None:
    axes.plot(page["year"], page["flow"], color=SEEN, label="flow of the Nile")
    axes.plot(
        page["year"], np.array([1100, 850])[page["states"]], color=OURS, label="mean of the likeliest state"
    )
    axes.set(ylabel="$10^8 m^3$ a year")
    axes.legend()


def tridiagonal(page: dict[str, Any], axes: Any) -> None:
    years = 1871 + np.arange(100)
    axes.plot(years, page["flow"], color=SEEN, label="flow of the Nile")
    axes.plot(years, page["smooth"], color=OURS, label="smoothest line near it")
    axes.set(ylabel="$10^8 m^3$ a year")
    axes.legend()


PICTURES: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "histograms": histograms, "areas": areas, "averages": averages, "filters": filters, "kalman": kalman,
    "hidden-markov": hidden_markov, "tridiagonal": tridiagonal,
}  # fmt: skip
"""What draws the picture of a page."""


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    for name, draw in PICTURES.items():
        figure, axes = pyplot.subplots(figsize=(7.2, 3.2), layout="constrained")
        draw(computed(name), axes)
        figure.savefig(HERE / f"{name}.png", dpi=90, metadata={"Software": None})
        pyplot.close(figure)
