#!/bin/sh
# Build the wheel for any machine, and the one with the C part for this machine, and try both in clean environments of each Python
# named: sh tests/packaging/check.sh 3.10 3.13
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for hooks in true false; do
    HATCH_BUILD_NO_HOOKS=$hooks python -m build --wheel --outdir "$work/$hooks" . >"$work/build.log" 2>&1 ||
        { cat "$work/build.log"; exit 1; }
    for version in "$@"; do
        python="$work/$hooks$version/bin/python"
        "python$version" -m venv "$work/$hooks$version"
        "$python" -m pip install --quiet --disable-pip-version-check "$work/$hooks"/*.whl
        (cd "$work" && UPSWEEP_CACHE_DIR="$work/cache" "$python" - <"$OLDPWD/tests/packaging/smoke.py")
    done
done
