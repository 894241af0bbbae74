"""The recurrence of models as others compute it, beside ours in the same run: times the time of ours.

python benchmarks/layer_peers.py [--check] [PEER ...]      on a GPU; results by machine in benchmarks/results

Peers are named in PEERS; those that are not installed are left out, and `--check` compares them without timing. Each does what its user
would write, on the layout that it wants (accelerated-scan has time last, and is given that without a copy), and is compared with ours
before it is timed: forward, and forward with backward through autograd. flash-linear-attention's HGRN takes the logarithm of the
decay; the layer "hgrn" is timed as its users compose it, gates included.
"""

from __future__ import annotations

import json
import sys
import types
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]
import torch

import upsweep.torch as ut
from models import copying, median

SHAPES = [(8, 4096, 1536), (32, 2048, 4096)]
DTYPES = [torch.float32, torch.bfloat16]
STEPS = 32
"""Of the loop over time that are compiled at once: the whole loop takes the compiler hours."""


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
def _associative():
    from torch._higher_order_ops.associative_scan import associative_scan  # noqa: PLC2701

    return torch.compile(lambda a, b: associative_scan(combined, (a, b), dim=1)[1], dynamic=False)


def accelerated(a, b):
    from accelerated_scan.scalar import scan

    return scan(a.mT, b.mT).mT


@cache
def _fla():
    """HGRN's kernel. The packages around it import all others, which need more than PyTorch and Triton."""
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
    "associative_scan": (lambda a, b: _associative()(a, b), ours, None),
    "compiled loop": (compiled_loop, ours, None),
    "fla kernel": (fla_recurrence, ours, "fla"),
    "fla layer": (fla_layer, hgrn, "fla"),
}
"""What computes it, what of ours does the same, and the package that it needs."""


def operands(name, shape, dtype):
    torch.manual_seed(0)
    turned = name == "accelerated-scan"
    shape = (shape[0], shape[2], shape[1]) if turned else shape
    xs = [torch.rand(shape, device="cuda").mul_(0.8).add_(0.1).to(dtype) for _ in range(3)]
    return [x.mT if turned else x for x in xs]


def both(run, a, b, g):
    return torch.autograd.grad(run(a, b), (a, b), g)


def measured(name, shape, dtype, timing):
    run, mine, _ = PEERS[name]
    few = [x[:, :64] for x in operands(name, (2, 64, 256), dtype)]
    a, b, g = (x.detach().requires_grad_() for x in few)
    close = {"rtol": 5e-2, "atol": 5e-2 if dtype == torch.bfloat16 else 1e-4}
    torch.testing.assert_close(run(a, b), mine(a, b), **close)
    if timing:
        a, b, g = operands(name, shape, dtype)
        p, q, _ = operands("", shape, dtype)
        with torch.no_grad():
            ahead = median(lambda: mine(p, q), 5)
            made = {"forward": median(lambda: run(a, b), 5) / ahead, "ours": 3 * copying(b.nbytes) / ahead}
    else:
        made = {}
    try:
        a, b, g = (x.detach().requires_grad_() for x in (few if not timing else (a, b, g)))
        if not timing:
            for x, y in zip(both(run, a, b, g), both(mine, a, b, g)):
                torch.testing.assert_close(x, y, **close)
            return made
        p, q, s = (x.detach().requires_grad_() for x in operands("", shape, dtype))
        made["both"] = median(lambda: both(run, a, b, g), 3) / median(lambda: both(mine, p, q, s), 3)
    except (RuntimeError, NotImplementedError) as error:
        made["both"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"
    return made


def main(names, timing):
    rows, machine = [], torch.cuda.get_device_name()
    print(f"{machine}: times the time of ours; ours: of a copy of the same bytes")
    for name in names:
        package = PEERS[name][2]
        if package is not None and find_spec(package) is None:
            print(f"{name:>18} not installed")
            continue
        for shape in SHAPES if timing else SHAPES[:1]:
            for dtype in DTYPES:
                try:
                    made = measured(name, shape, dtype, timing)
                    made = {k: round(v, 3) if isinstance(v, float) else v for k, v in made.items()}
                except Exception as error:
                    made = {"error": f"{type(error).__name__}: {str(error).strip()[:200]}"}
                rows.append(
                    {"peer": name, "shape": shape, "dtype": str(dtype).removeprefix("torch."), **made}
                )
                print(f"{name:>18} {shape!s:>18} {rows[-1]['dtype']:>9} {made}", flush=True)
                torch.cuda.empty_cache()
    return {"machine": machine, "torch": torch.__version__, "rows": rows}


if __name__ == "__main__":
    words = sys.argv[1:]
    found = main([w for w in words if w in PEERS] or list(PEERS), "--check" not in words)
    if "--check" not in words:
        name = found["machine"].lower().replace(" ", "-")
        path = Path(__file__).parent / "results" / f"layer-peers-{name}.json"
        path.write_text(json.dumps(found, indent=1) + "\n")
