"""The page as one text: its markup, style and scripts put together, with the data that it starts from."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from upsweep.lab.page.bundle import python
from upsweep.lab.page.course import GLOSSARY, RUNGS
from upsweep.lab.page.dials import CHOICES, Dials, first, kernels
from upsweep.lab.page.held import grid
from upsweep.lab.page.played import MOST_EVENTS, payload, shown
from upsweep.lab.page.practice import exercises
from upsweep.lab.traces import Trace
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES

SCRIPTS = (
    "model",
    "data",
    "network",
    "memory",
    "source",
    "lanes",
    "banks",
    "panels",
    "guide",
    "editor",
    "practice",
    "pane",
    "start",
    "address",
    "app",
)
POLICY = " blob: 'wasm-unsafe-eval'; worker-src blob:"
"""The rights of a page with Python inside, beyond those of others: to make scripts and threads out of its own text."""
BESIDE = {"brent-kung": "kogge-stone", "kogge-stone": "brent-kung", "blelloch": "blelloch-padded", "domino": "domino-dynamic",
          "decoupled-look-back": "domino-dynamic", "matrix": "three-phase", "segmented": "kogge-stone", "harris": "han-carlson",
          "": "brent-kung"}  # fmt: skip
"""The kernel that a comparison opens with."""


def offline(
    path: str | Path, start: Dials, welcome: bool = False, one_by_one: Callable[[Collection[Dials]], Iterable[Dials]] = iter
) -> int:  # fmt: skip
    """Write a page that needs neither network nor Python, and give its size in bytes.

    It holds every kernel and every mistake at a few settings, each barrier taken out included; it opens at `start`, whose
    kernel has all of its dials. `one_by_one` is handed all settings and gives each when it is run, which takes a minute in all.
    """
    opened = {name: first(name) for name in (*KERNELS, *MISTAKES)} | (
        {start.kernel: start} if start.source else {}
    )
    every = {dials.key: dials for name, one in opened.items() for dials in grid(one, name == start.kernel)}
    written = page(start, one_by_one({**every, start.key: start}.values()), welcome=welcome).encode()
    Path(path).write_bytes(written)
    return len(written)


def with_python(path: str | Path, start: Dials, welcome: bool = False) -> int:
    """Write a page that has Python itself inside: any setting is traced, any text run and graded, without network.

    Raises:
        NoPyodide: where Pyodide cannot be had.
    """
    held = {dials.key: dials for dials in (start, *(first(rung.kernel) for rung in RUNGS))}
    written = page(start, held.values(), welcome=welcome, inside=python()).encode()
    Path(path).write_bytes(written)
    return len(written)


def known(kernel: str) -> str:
    """The name, if it is one."""
    if kernel not in KERNELS and kernel not in MISTAKES:
        raise KeyError(
            f"no kernel is called {kernel}; there are {', '.join(KERNELS)}; and the mistakes {', '.join(MISTAKES)}"
        )
    return kernel


def page(start: Dials, embedded: Iterable[Dials] = (), served: bool = False, welcome: bool = False,
         inside: Mapping[str, str] | None = None) -> str:  # fmt: skip
    """The whole page.

    Args:
        start: the setting that it opens at.
        embedded: the variants that it carries along.
        served: whether a server answers it.
        welcome: whether it opens at the start screen.
        inside: Python's parts, where it has its own.
    """
    return _written(start, {dials.key: packed(payload(dials)) for dials in embedded}, served, welcome, inside)


def of_trace(trace: Trace) -> str:
    """A page of this one run: `Trace.html`.

    Raises:
        ValueError: where there are more events than a browser plays without stuttering.
    """
    case = trace.case
    block = case.setup.launches[0].block
    start = Dials(case.name, trace.n, block, case.op_name, schedule=str(case.schedule), source=trace.kernels[0].source.text,
                  without=tuple(sorted(trace.without)), before=tuple(sorted(trace.before)))  # fmt: skip
    return _written(start, {start.key: packed(shown(trace, start))})


def framed(trace: Trace) -> str | None:
    """The page of a run inside a notebook. None for a run with too many events: then the notebook shows the picture."""
    if len(trace.site) > MOST_EVENTS:
        return None
    style = "width:100%;height:720px;border:1px solid #8884;border-radius:8px"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{escape(of_trace(trace))}"></iframe>'


def _written(start: Dials, variants: Mapping[str, str], served: bool = False, welcome: bool = False,
             inside: Mapping[str, str] | None = None) -> str:  # fmt: skip
    data = {
        "start": vars(start), "served": served, "welcome": welcome, "python": inside,
        "kernels": kernels(start), "choices": CHOICES, "beside": BESIDE,
        "rungs": [vars(rung) for rung in RUNGS], "glossary": GLOSSARY,
        "exercises": exercises() if served or inside else [], "variants": variants,
    }  # fmt: skip
    shipped = files("upsweep.lab.page") / "static"
    text = (shipped / "page.html").read_text(encoding="utf-8")
    script = "\n".join((shipped / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    text = text.replace("/*style*/", (shipped / "style.css").read_text(encoding="utf-8"))
    if inside:
        worker = (shipped / "worker.js").read_text(encoding="utf-8")
        text = text.replace("/*policy*/", POLICY).replace("/*worker*/", worker)
    text = text.replace("/*policy*/", "").replace("/*worker*/", "")
    return text.replace("/*script*/", script).replace("/*data*/", as_script(data))


def as_script(data: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def packed(data: Any) -> str:
    """JSON, compressed in a form that a browser unpacks by itself; the same data give the same text."""
    text = json.dumps(data, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()
