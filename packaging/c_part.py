"""The step of a build that compiles the C part, src/upsweep/_short_way*.c. Where that fails, the package is built without it.

`HATCH_BUILD_NO_HOOKS=true` leaves the step out, for a wheel that any machine can take.
"""

from __future__ import annotations

import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LOWEST = "cp310"
"""The first Python whose stable interface serves; Py_LIMITED_API in the source says the same."""


class CPart(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if (
            self.target_name != "wheel"
            or sys.implementation.name != "cpython"
            or sysconfig.get_config_var("Py_GIL_DISABLED")
        ):
            return
        source = Path(self.root, "src")
        try:
            for old in source.glob("upsweep/_short_way.*"):
                if old.suffix not in (".c", ".h"):
                    old.unlink()
            made = compiled(source)
        # Whatever is missing, a compiler or Python's headers, calls go the long way without it.
        except Exception as reason:
            self.app.display_warning(f"the C part is left out, so small calls take longer: {reason}")
            return
        # An editable installation finds it where it lies.
        build_data["artifacts"].append(made.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"{LOWEST}-abi3-{platform}"


def compiled(source: Path) -> Path:
    """The extension module, beside its source."""
    import numpy as np
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    files, headers = [sorted(map(str, source.glob(f"upsweep/_short_way*.{kind}"))) for kind in "ch"]
    module = Extension(
        "upsweep._short_way", files, include_dirs=[np.get_include()], depends=headers, py_limited_api=True
    )
    step = build_ext(Distribution({"name": "upsweep", "ext_modules": [module]}))
    with tempfile.TemporaryDirectory() as folder:
        step.build_lib, step.build_temp = str(source), folder
        step.ensure_finalized()
        step.run()
    return Path(step.get_ext_fullpath(module.name))
