"""The recurrence of models as others compute it, beside ours in the same run: their time over ours.

python benchmarks/layer_peers.py [--check] [FOLDER] [PEER ...]      on a GPU; results by machine in FOLDER

PEERS names the peers; those that are not installed are left out. `--check` compares them without timing. Each peer is written
as its user would write it, on the layout that it wants (accelerated-scan has time last, and gets that layout without a copy).
It is compared with ours before it is timed: forward, and forward with backward through autograd. flash-linear-attention's HGRN
takes the logarithm of the decay. The layer "hgrn" is timed as its users compose it, gates included.
"""

from __future__ import annotations

import json
import sys
import types
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]
import torch

import upsweep.torch as ut
from models import copying, median

SHAPES = [(8, 4096, 1536), (32, 2048, 4096)]
DTYPES = [torch.float32, torch.bfloat16]
STEPS = 32
"""Steps of the loop over time that are compiled at once: the compiler would take hours for the whole loop."""


def ours(a, b, order="sequential"):
    return ut.linear_recurrence(a, b, axis=1, order=order)


def block(h, a, b):
    states = []
    for t in range(STEPS):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


def compiled_loop(a, b):
    run, h, parts = _compiled(), torch.zeros_like(b[:, 0]), []
    for t in range(0, b.shape[1], STEPS):
        parts.append(run(h, a[:, t : t + STEPS], b[:, t : t + STEPS]))
        h = parts[-1][:, -1]
    return torch.cat(parts, 1)


@cache
def _compiled():
    return torch.compile(block, dynamic=False)


def combined(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


@cache
def _associative(mode):
    from torch._higher_order_ops.associative_scan import associative_scan  # noqa: PLC2701

    def run(a, b):
        return associative_scan(combined, (a, b), dim=1, combine_mode=mode)

    return torch.compile(run, dynamic=False)


def associative(a, b, mode="pointwise"):
    return _associative(mode)(a, b)[1]


def accelerated(a, b):
    from accelerated_scan.scalar import scan

    return scan(a.mT, b.mT).mT


@cache
def _fla():
    """The kernel of HGRN. The packages around it import all others, which need more than PyTorch and Triton."""
    place = find_spec("fla").submodule_search_locations[0]
    package = types.ModuleType("fla.ops")
    package.__path__ = [f"{place}/ops"]
    sys.modules["fla.ops"] = package
    from fla.ops.hgrn.fused_recurrent import fused_recurrent_hgrn

    return fused_recurrent_hgrn


def fla_recurrence(a, b):
    return _fla()(b, a.log())[0]


def fla_layer(gate, x):
    f = torch.nn.functional.logsigmoid(gate)
    return _fla()(x * (1 - f.exp()), f)[0]


def hgrn(gate, x):
    return ut.hgrn(x, gate)


PEERS = {
    "tree": (partial(ours, order="tree"), ours, None),
    "accelerated-scan": (accelerated, ours, "accelerated_scan"),
    "associative_scan": (associative, ours, None),
    "associative_scan, generic": (partial(associative, mode="generic"), ours, None),
    "compiled loop": (compiled_loop, ours, None),
    "fla kernel": (fla_recurrence, ours, "fla"),
    "fla layer": (fla_layer, hgrn, "fla"),
}
"""The peer's call, our call that computes the same, and the package that the peer needs."""


def operands(name, shape, dtype):
    torch.manual_seed(0)
    turned = name == "accelerated-scan"
    shape = (shape[0], shape[2], shape[1]) if turned else shape
    xs = [torch.rand(shape, device="cuda").mul_(0.8).add_(0.1).to(dtype) for _ in range(3)]
    return [x.mT if turned else x for x in xs]


def both(run, a, b, g):
    return torch.autograd.grad(run(a, b), (a, b), g)


def compared(name, shape, dtype, way):
    """An AssertionError where the results or the gradients differ from ours: 64 steps that lie as in the whole are compared."""
    run, mine, _ = PEERS[name]
    if name == "accelerated-scan":
        shape = (shape[0], 64, shape[2])
    few = [x[:, :64] for x in operands(name, shape, dtype)]
    close = {"rtol": 5e-2, "atol": 5e-2 if dtype == torch.bfloat16 else 1e-4}
    if way == "forward":
        with torch.no_grad():
            torch.testing.assert_close(run(*few[:2]), mine(*few[:2]), **close)
    else:
        a, b, g = (x.detach().requires_grad_() for x in few)
        for x, y in zip(both(run, a, b, g), both(mine, a, b, g)):
            torch.testing.assert_close(x, y, **close)


def timed(name, shape, dtype, way):
    """The peer's time over ours; forward also ours as a fraction of a copy."""
    run, mine, _ = PEERS[name]
    theirs, own = operands(name, shape, dtype), operands("", shape, dtype)
    if way == "forward":
        with torch.no_grad():
            least = median(lambda: mine(*own[:2]), 5)
            return {
                "forward": median(lambda: run(*theirs[:2]), 3) / least,
                "ours": 3 * copying(own[0].nbytes) / least,
            }
    a, b, g = (x.detach().requires_grad_() for x in theirs)
    p, q, s = (x.detach().requires_grad_() for x in own)
    return {"both": median(lambda: both(run, a, b, g), 3) / median(lambda: both(mine, p, q, s), 3)}


def measured(name, shape, dtype, timing):
    made = {}
    for way in ("forward", "both"):
        try:
            compared(name, shape, dtype, way)
            made |= timed(name, shape, dtype, way) if timing else {way: "agrees"}
        except Exception as error:
            words = " ".join(str(error).split())
            made[way] = f"{type(error).__name__}: {words[:110]}"
        torch.cuda.empty_cache()
    # PyTorch compiles a function for eight cases, and runs it uncompiled in any further one.
    torch.compiler.reset()
    return made


def main(names, folder):
    """Times in `folder`, kept after each row. Without a folder: whether the peers agree."""
    rows, machine = [], torch.cuda.get_device_name()
    path = folder and folder / f"layer-peers-{machine.lower().replace(' ', '-')}.json"
    print(f"{machine}: times the time of ours; ours: of a copy of the same bytes")
    there = [n for n in names if PEERS[n][2] is None or find_spec(PEERS[n][2])]
    cases = product(SHAPES if folder else SHAPES[:1], DTYPES, there)
    for shape, dtype, name in cases:
        made = measured(name, shape, dtype, folder)
        made = {k: round(v, 3) if isinstance(v, float) else v for k, v in made.items()}
        rows.append({"peer": name, "shape": shape, "dtype": str(dtype).removeprefix("torch."), **made})
        print(f"{name:>25} {shape!s:>18} {rows[-1]['dtype']:>9} {made}", flush=True)
        if path:
            path.write_text(
                json.dumps({"machine": machine, "torch": torch.__version__, "rows": rows}, indent=1) + "\n"
            )


if __name__ == "__main__":
    words = sys.argv[1:]
    named = [w for w in words if w in PEERS]
    given = [Path(w) for w in words if w not in PEERS and w != "--check"]
    results = Path(__file__).parent / "results"
    main(named or list(PEERS), None if "--check" in words else given[0] if given else results)
