"""The command line. click, rich and pyarrow come with `pip install 'upsweep[cli]'`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """The entry of the command `upsweep`."""
    try:
        from upsweep.cli.app import app
    except ModuleNotFoundError as missing:
        sys.exit(f"upsweep: the command line needs {missing.name}: pip install 'upsweep[cli]'")
    # A process that is asked to end would leave its temporary folders behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app()
