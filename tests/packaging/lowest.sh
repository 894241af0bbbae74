#!/bin/sh
# Run the tests of the core and the command line on the lowest versions that pyproject.toml admits: sh tests/packaging/lowest.sh 3.10
# uv resolves them: every requirement named in pyproject.toml at its lower bound, what those need at its newest.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv venv --quiet --python "$1" "$work/venv"
VIRTUAL_ENV=$work/venv uv pip install --quiet --resolution lowest-direct --editable '.[cli]' 'pytest>=8' 'hypothesis>=6.150'
VIRTUAL_ENV=$work/venv uv pip list
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider tests/test_cli.py tests/integrations/test_files.py tests/test_segments.py
