"""The lab's own Python for a page that needs no network: Pyodide from its npm package, and the part of upsweep that traces.

Pyodide's package holds CPython as WebAssembly and its standard library, and no NumPy: `inside/` stands in for that.
"""

from __future__ import annotations

import base64
import gzip
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

PYODIDE = "314.0.7"
"""The version on npm."""
PARTS = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""The files of its package that a page needs."""
STANDING_IN = {
    "numpy.py": "numpy.py", "operators.py": "upsweep/operators.py", "operator.py": "upsweep/operator.py",
    "nothing.py": "upsweep/__init__.py",
}  # fmt: skip
"""The files of `inside/`, and where they stand."""


class NoPyodide(RuntimeError):
    """Pyodide cannot be had here."""


def python() -> dict[str, str]:
    """Pyodide's parts and the lab, each compressed and as text.

    Raises:
        NoPyodide: where npm is missing or reaches no registry.
    """
    return {name: _packed(content) for name, content in {**_pyodide(), "lab.zip": lab()}.items()}


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def _pyodide() -> dict[str, bytes]:
    npm = shutil.which("npm")
    if npm is None:
        raise NoPyodide("npm is not on the PATH: install Node.js, or leave --python out")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", f"pyodide@{PYODIDE}"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
            )
        except subprocess.TimeoutExpired:
            raise NoPyodide(f"npm pack pyodide@{PYODIDE} took more than 300 s") from None
        packages = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packages:
            raise NoPyodide(
                f"npm pack pyodide@{PYODIDE} failed: {done.stderr.strip() or done.stdout.strip()}"
            )
        with tarfile.open(packages[0]) as package:
            found = {part: package.extractfile(f"package/{part}") for part in PARTS}
            return {part: file.read() for part, file in found.items() if file is not None}


def lab() -> bytes:
    """The lab and the textbook as an archive, with the stand-ins for the rest."""
    root, out = files("upsweep"), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("lab", "textbook"):
            _add(archive, root / name, f"upsweep/{name}")
        for name, place in STANDING_IN.items():
            text = (root / "lab" / "page" / "inside" / name).read_bytes()
            archive.writestr(zipfile.ZipInfo(place), text)
    return out.getvalue()


def _add(archive: zipfile.ZipFile, folder: Traversable, place: str) -> None:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir() and entry.name not in ("__pycache__", "static", "inside"):
            _add(archive, entry, f"{place}/{entry.name}")
        elif entry.name.endswith(".py"):
            archive.writestr(zipfile.ZipInfo(f"{place}/{entry.name}"), entry.read_bytes())
