"""Statements of the sources that no run shows."""

from __future__ import annotations

NOT_REPRODUCED = {
    "CS380 padded cycles, 128 leaves": "106 printed, 112 by the rule that gives all other entries; 106 - 48 is no multiple "
    "of 8, and seven instead of eight warp accesses in one term would give it",
    "CS380 sequential scan": "the slide says n additions, its code makes n - 1",
    "CS380 '20 times for 10^6 elements'": "log2(10^6) is 19.93; the ratio of the additions is 18.95, and 9.01 in a block of 1024",
    "CS380 address overhead": "worded as 8 cycles an iteration, which fits 64 leaves alone; it is 8 for each warp and iteration",
    "notes, last level of the reverse tree": "the text leaves XY[14] out",
}
"""Statements of the sources that no run shows, each with the answer of the runs."""
