"""Layers of recurrent models, forward and through autograd: fractions of a copy of what they must move, in the same run.

python benchmarks/layers.py [FOLDER]      on a GPU where there is one, else on the CPU; results by machine in FOLDER

Beside each stands the same layer composed of PyTorch's operators and `linear_recurrence` in order ("composed"), and with the gates
compiled by torch.compile ("compiled"): times the layer's own time. Of a selective scan "exps" and "both_exps" are fractions of what
its exponentials take at 16 a clock and multiprocessor: one for each state and step forwards, and one more on the way back, which
computes the states again. Of a fraction of a copy and that of the exponentials the larger one says which bound counts. peak is the
most memory that forward and backward hold, in arrays of the input's size. A step is that of 256 sequences of 4096 channels: times
an elementwise update of its states (addcmul), of a selective scan times a copy of them. Every layer is compared with its composition before it is timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]
import torch

import upsweep as up
import upsweep.torch as ut
from models import DEVICE, GPU, copying, median

SHAPES = [(8, 4096, 1536), (32, 2048, 4096), (1, 16384, 4096)] if GPU else [(4, 512, 256)]
STATES = 16


def rg_lru(x, i, r, decay):
    decay = -8 * torch.nn.functional.softplus(decay) * torch.sigmoid(r.float())
    return decay.exp(), torch.sqrt(-torch.expm1(2 * decay)) * torch.sigmoid(i.float()) * x.float()


def min_gru(x, gate):
    return torch.sigmoid(-gate.float()), torch.sigmoid(gate.float()) * x.float()


def hgrn(x, gate, bound):
    shut = (1 - bound) * torch.sigmoid(-gate.float())
    return 1 - shut, shut * x.float()


LAYERS = {
    "rg_lru": (ut.rg_lru, rg_lru, 3, 1),
    "min_gru": (ut.min_gru, min_gru, 2, 0),
    "hgrn": (ut.hgrn, hgrn, 2, 1),
}
NAMES, DTYPES = (*LAYERS, "selective_scan"), ("float32", "bfloat16")


def gated(name, shape, dtype):
    run, gates, count, parameters = LAYERS[name]
    xs = [torch.randn(shape, device=DEVICE).to(dtype).requires_grad_() for _ in range(count)]
    xs += [torch.rand(shape[2], device=DEVICE).requires_grad_() for _ in range(parameters)]
    g, size = torch.randn_like(xs[0]), xs[0].numel() * xs[0].element_size()

    def composed(gates, xs=xs):
        a, b = gates(*xs)
        return ut.linear_recurrence(a, b, axis=1, order="sequential").to(dtype)

    few = [x[:, :64] if x.ndim == 3 else x for x in xs]
    torch.testing.assert_close(
        run(*few), composed(gates, few), rtol=2e-2, atol=2e-2 if dtype != torch.float32 else 1e-5
    )
    made = {}
    with torch.no_grad():
        forward = median(lambda: run(*xs), 5)
        made["forward"] = (count + 1) * copying(size) / forward
        made["composed"] = median(lambda: composed(gates), 3) / forward
        compiled = torch.compile(gates, dynamic=True) if GPU else gates
        made["compiled"] = median(lambda: composed(compiled), 3) / forward if GPU else None
    made["both"] = (3 * count + 3) * copying(size) / median(lambda: torch.autograd.grad(run(*xs), xs, g), 5)
    return made


def selective(shape, dtype):
    batch, steps, channels = shape
    u, delta, z = (torch.randn(shape, device=DEVICE).to(dtype).requires_grad_() for _ in range(3))
    b, c = (torch.randn(batch, steps, STATES, device=DEVICE).to(dtype).requires_grad_() for _ in range(2))
    a = (-torch.rand(channels, STATES, device=DEVICE) - 0.1).requires_grad_()
    xs, g, size = (u, delta, a, b, c), torch.randn_like(u), u.numel() * u.element_size()

    def run(xs=xs, z=z):
        return ut.selective_scan(*xs, z=z, delta_softplus=True)

    few = [x[:, :24] if x.ndim == 3 else x for x in (*xs, z)]
    torch.testing.assert_close(
        run(few[:5], few[5]), naive(*few).to(dtype), rtol=2e-2, atol=2e-2 if dtype != torch.float32 else 1e-4
    )
    made = {}
    with torch.no_grad():
        forward = median(run, 5)
    made["forward"] = 4 * copying(size) / forward
    both = median(lambda: torch.autograd.grad(run(), (*xs, z), g), 5)
    made["both"] = 11 * copying(size) / both
    if GPU:
        about = torch.cuda.get_device_properties(0)
        rate = 16 * about.multi_processor_count * getattr(about, "clock_rate", 1.98e6) * 1e3
        exponentials = u.numel() * STATES / rate
        made |= {"exps": exponentials / forward, "both_exps": 2 * exponentials / both}
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        torch.autograd.grad(run(), (*xs, z), g)
        made["peak"] = (torch.cuda.max_memory_allocated() - before) / size
    return made


def stepped(name):
    """The time of one step, of float32."""
    shape = 256, 4096
    x = [torch.randn(shape, device=DEVICE) for _ in range(3)]
    constant = torch.rand(shape[1], device=DEVICE)
    if name == "selective_scan":
        state, a = torch.randn(*shape, STATES, device=DEVICE), -torch.rand(shape[1], STATES, device=DEVICE)
        b, c = torch.randn(2, shape[0], STATES, device=DEVICE)
        seconds = median(lambda: ut.selective_step(state, x[0], x[1], a, b, c, z=x[2], delta_softplus=True))
        return seconds / copying(2 * state.nbytes)
    state = torch.randn(shape, device=DEVICE)
    if name == "linear_recurrence":
        a, b = (v[:, None] for v in x[:2])
        seconds = median(
            lambda: up.linear_recurrence(a, b, axis=1, initial=state, out=state[:, None], order="sequential")
        )
        return seconds / median(lambda: torch.addcmul(x[1], x[0], state, out=state))
    _, _, count, parameters = LAYERS[name]
    step = getattr(ut, f"{name}_step")
    given = *x[:count], *[constant] * parameters
    return median(lambda: step(state, *given)) / median(lambda: state.addcmul_(x[0], x[1], value=1e-3))


def measured(name, shape, dtype):
    dtype = getattr(torch, dtype)
    return selective(shape, dtype) if name == "selective_scan" else gated(name, shape, dtype)


def naive(u, delta, a, b, c, z):
    delta, h, ys = torch.nn.functional.softplus(delta.float()), 0, []
    for t in range(u.shape[1]):
        h = (
            torch.exp(delta[:, t, :, None] * a) * h
            + (delta[:, t] * u[:, t])[..., None] * b[:, t, None].float()
        )
        ys.append((h * c[:, t, None]).sum(-1) * torch.nn.functional.silu(z[:, t].float()))
    return torch.stack(ys, 1)


def warm():
    """Compile everything, each layer and dtype in a process of its own, on sequences that are cut short."""
    for child in [
        subprocess.Popen([sys.executable, __file__, "--warm", name, dtype])
        for name in NAMES
        for dtype in DTYPES
    ]:
        child.wait()


def main(folder):
    if GPU:
        warm()
    machine = torch.cuda.get_device_name() if GPU else f"cpu, {torch.get_num_threads()} threads"
    rows = []
    print(
        f"{machine}: fractions of a copy of what must be moved; composed and compiled: times the layer's time"
    )
    for dtype in DTYPES:
        for shape in SHAPES:
            for name in NAMES:
                made = measured(name, shape, dtype)
                made = {key: round(value, 3) for key, value in made.items() if value is not None}
                rows.append({"layer": name, "shape": shape, "dtype": dtype, **made})
                print(f"{name:>14} {shape!s:>18} {dtype:>9} {made}", flush=True)
    for layer in ("linear_recurrence", *NAMES):
        rows.append({"layer": layer, "step": round(stepped(layer), 2)})
        print(f"{layer:>14} step {rows[-1]['step']}", flush=True)
    name = machine.lower().replace(" ", "-").replace(",", "")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"layers-{name}.json").write_text(
        json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--warm"]:
        for batch, _, channels in SHAPES:
            measured(sys.argv[2], (batch, 256, channels), sys.argv[3])
        sys.exit()
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results")
