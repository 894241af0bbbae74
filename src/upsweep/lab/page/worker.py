"""The process that runs the user's kernels for the server, so that a run can be stopped: `python -m upsweep.lab.page.worker`.

Each line of its input is a question's name, a space, and JSON; each line of its output is an answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from threading import Lock

from upsweep.lab.limits import environment, limit

STOPPED = json.dumps({"error": "stopped: nothing of this run is kept"})


class Worker:
    """A process that answers. It is started when there is something to do, and again after it was stopped."""

    def __init__(self) -> None:
        self.turn = Lock()
        self.process: subprocess.Popen[str] | None = None

    def ask(self, name: str, given: str) -> str:
        """The answer to one question; others wait for their turn."""
        with self.turn:
            process = self.process or self.started()
            questions, answers = process.stdin, process.stdout
            assert questions is not None
            assert answers is not None
            try:
                questions.write(f"{name} {given}\n")
                questions.flush()
                said = answers.readline()
            except OSError:
                said = ""
            if not said:
                self.forget()
            return said.rstrip("\n") or STOPPED

    def started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", __name__]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
        self.process = subprocess.Popen(command, env=environment(), **pipes)
        return self.process

    def forget(self) -> None:
        """Close what leads to a process that has ended."""
        process, self.process = self.process, None
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                # A process that was killed has never read its last question.
                with suppress(OSError):
                    pipe.close()  # pyright: ignore[reportOptionalMemberAccess]

    def stop(self) -> None:
        """End the run that is under way; the waiting caller is told."""
        process = self.process
        if process is not None:
            process.kill()

    def close(self) -> None:
        self.stop()
        with self.turn:
            self.forget()


def main() -> None:
    from upsweep.lab.page.answers import answer

    limit()
    # Prints of a user's operator go to the terminal and not among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        name, _, given = line.rstrip("\n").partition(" ")
        print(answer(name, given), file=answers, flush=True)


if __name__ == "__main__":
    main()
