"""PyTorch's compiler knows a result's strides from the operator's fake: it refuses a graph whose results lie otherwise."""

from __future__ import annotations

import pytest

import upsweep as up
from portions import every

torch = pytest.importorskip("torch")

from torch._subclasses import CrossRefFakeMode  # noqa: E402, PLC2701

import upsweep.torch as ut  # noqa: E402

SHAPE = 3, 7, 5
FLAGS = torch.arange(105).reshape(SHAPE) % 9 == 4
SEGMENTS = up.segments.flags(FLAGS)
COEFFICIENTS = [1.0, 0.5], [1.0, -0.3]
CALLS = {
    "ema": lambda x: ut.ema(x, 0.3, axis=1),
    "ema in segments": lambda x: ut.ema(x, 0.3, axis=1, segments=SEGMENTS),
    "ema by tensors": lambda x: ut.ema(x, x[:, :1].sigmoid(), axis=1, initial=x[:, 0]),
    "sums": lambda x: ut.cumulative_sum(x, axis=1),
    "exclusive sums": lambda x: ut.scan(x, "add", axis=1, exclusive=True),
    "products": lambda x: ut.cumulative_prod(x, axis=1),
    "maxima": lambda x: ut.scan(x, "max", axis=1, reverse=True),
    "log-sums": lambda x: ut.cumlogsumexp(x, axis=0),
    "discounted": lambda x: ut.discounted_sum(x, 0.9, FLAGS, axis=1),
    "discounted from values": lambda x: ut.discounted_sum(x, 0.9, FLAGS, axis=1, initial=x[:, 0]),
    "recurrence": lambda x: ut.linear_recurrence(x, x * 0.5, axis=1),
    "recurrence in order": lambda x: ut.linear_recurrence(x, x * 0.5, axis=1, order="sequential"),
    "by a number": lambda x: ut.linear_recurrence(0.5, x, axis=1),
    "by one for all channels": lambda x: ut.linear_recurrence(x[:, :, :1], x, axis=1),
    "by one for all times": lambda x: ut.linear_recurrence(x[:, :1], x, axis=1),
    "from a state": lambda x: ut.linear_recurrence(x, x, initial=x[:, 0], axis=1, segments=SEGMENTS),
    "advantages": lambda x: ut.gae(x, x * 2, x[:, 0], FLAGS, gamma=0.9, lam=0.8, axis=1),
    "filter": lambda x: ut.lfilter(*COEFFICIENTS, x, axis=1),
    "total": lambda x: ut.reduce(x, axis=1, initial=x[:, 0]),
    "reduction": lambda x: ut.reduce(x, "max", axis=1, segments=up.segments.lengths([3, 4])),
    "layer": lambda x: ut.min_gru(x, x),
}
LAYOUTS = {
    "as it comes": lambda shape: torch.rand(shape),
    "transposed": lambda shape: torch.rand(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2),
    "with gaps": lambda shape: torch.rand(*shape[:-1], 2 * shape[-1])[..., ::2],
    "one for all": lambda shape: torch.rand(1).expand(shape),
}


# The mode asks every tensor that it sees for its gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("call", every(3, CALLS))
def test_results_and_gradients_lie_as_the_compiler_is_told(call):
    torch.manual_seed(0)
    for inside in ("as it comes", "transposed", "with gaps"):
        for outside in LAYOUTS:
            x = LAYOUTS[inside](SHAPE).requires_grad_()
            # Each operator runs on fake tensors, too.
            with CrossRefFakeMode():
                y = CALLS[call](x)
                y.backward(LAYOUTS[outside](y.shape))
