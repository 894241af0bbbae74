#!/bin/sh
# Build the wheel and try it in a clean environment of each Python named: sh tests/packaging/check.sh 3.10 3.13
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python -m build --wheel --outdir "$work/dist" . >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
for version in "$@"; do
    "python$version" -m venv "$work/$version"
    "$work/$version/bin/python" -m pip install --quiet --disable-pip-version-check "$work"/dist/*.whl
    (cd "$work" && UPSWEEP_CACHE_DIR="$work/cache" "$work/$version/bin/python" - <"$OLDPWD/tests/packaging/smoke.py")
done
