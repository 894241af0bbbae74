"""The demonstrations hold what they claim, and each leaves a picture that is not empty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portions import every

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("sklearn")
pytest.importorskip("statsmodels")

from upsweep import demo  # noqa: E402

STORIES = [demo.summed_area_table, demo.moving_averages, demo.compaction, demo.long_sum]


@pytest.mark.parametrize("tell", every(2, STORIES), ids=lambda tell: tell.__name__)
def test_a_story_is_checked_raced_and_drawn(tmp_path: Path, tell, monkeypatch: pytest.MonkeyPatch) -> None:
    plt.switch_backend("Agg")
    library = demo.standard_library()
    monkeypatch.setattr(demo, "standard_library", lambda: library[:5_000_000])
    story = tell(tmp_path)
    assert story.checked
    assert all(ratio > 0 for _, ratio in story.ratios)
    picture = plt.imread(story.picture)
    assert picture.shape[1] > 600
    assert np.ptp(picture) == 1
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 50


def test_a_wrong_result_ends_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = demo.up.cumulative_sum
    monkeypatch.setattr(demo.up, "cumulative_sum", lambda x, axis: right(x, axis=axis) + (axis == 2))
    with pytest.raises(AssertionError, match="items are wrong"):
        demo.summed_area_table(tmp_path)
