"""The process in which a solution is graded: text in, marks out, and limits on what lies between."""

from __future__ import annotations

import json
import sys

from upsweep.lab.exercises.grade import SECONDS, graded, to_json
from upsweep.lab.limits import limit

if __name__ == "__main__":
    limit(SECONDS)
    given = json.load(sys.stdin)
    print(to_json(graded(given["text"], given["file"], given["number"])))
