"""Where compiled code is kept between processes."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def folder() -> Path:
    """$UPSWEEP_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get("UPSWEEP_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("upsweep", appauthor=False)
