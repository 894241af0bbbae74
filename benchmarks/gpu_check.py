"""One call on a machine with a GPU: bits against the canonical tree, then bandwidth as fractions of a copy.

python benchmarks/gpu_check.py FOLDER           everything: bits, the public API, applications, compute-sanitizer, the table with peers
python benchmarks/gpu_check.py bits  FOLDER     every call of tests/conformance; exit 1 on any difference
python benchmarks/gpu_check.py speed FOLDER     the table of gpu_cases.py, as JSON by machine; gpu_page.py makes the page of all
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"


def bits(folder, parts=12):
    """The conformance suite in processes of its own: after a fault in one, the others still report."""
    suite = [sys.executable, str(TESTS / "conformance" / "everything.py"), "cuda"]
    jobs = [
        subprocess.Popen(
            [*suite, f"{i}/{parts}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for i in range(parts)
    ]
    said = [job.communicate()[0] for job in jobs]
    lines = [line for text in said for line in text.splitlines() if "wrong" in line or "Error" in line]
    (folder / "bits.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)
    return any(job.returncode for job in jobs)


def everything(folder):
    """Each part in a process of its own: after a fault in one, the others still report."""
    here, python = Path(__file__).parent, sys.executable
    failed = int(bits(folder))
    report = (folder / "bits.txt").read_text().splitlines()
    commands = {
        "api": [python, str(here / "gpu_api.py")],
        "apps": [python, str(here / "gpu_apps.py"), str(folder)],
    }
    if shutil.which("compute-sanitizer"):
        commands["memcheck"] = [
            "compute-sanitizer",
            "--tool",
            "memcheck",
            "--report-api-errors",
            "no",
            python,
            str(here / "gpu_sanitize.py"),
        ]
    for name, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True)
        failed += done.returncode != 0
        report += [
            f"--- {name}: exit {done.returncode}",
            *[x for x in done.stdout.splitlines() if "upsweep: compiling" not in x][-40:],
        ]
    (folder / "checks.txt").write_text("\n".join(report) + "\n")
    print("\n".join(report), flush=True)
    return failed + speed(folder)


def speed(folder):
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("gpu_table.py")), str(folder)]
    ).returncode


if __name__ == "__main__":
    what, folder = (sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else ("", Path(sys.argv[1]))
    folder.mkdir(parents=True, exist_ok=True)
    if what == "bits":
        sys.exit(bits(folder))
    sys.exit(speed(folder) if what == "speed" else everything(folder))
