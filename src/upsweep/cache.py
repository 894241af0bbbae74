"""Where compiled code is kept between processes."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """$UPSWEEP_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get("UPSWEEP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    # Code that the package ships asks for no folder, and this import would take a twentieth of a first call's time.
    from platformdirs import user_cache_path

    return user_cache_path("upsweep", appauthor=False)
