"""The kernels' struct and the host's bytes are made from one list of fields. The compiler compares their sizes."""

import re

import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from gpu_plans import Fused, chosen, fused
from upsweep.engine import EngineError
from upsweep.gpu import compile, launch, params, text
from upsweep.operators import ops


def case(**flags):
    return chosen((ops.ADD, ["f4"], (40, 7, 300), 1, flags))


@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 2, 1), (3, 3, 3, 2), (1, 4, 2, 1), (5, 1, 2)])
@pytest.mark.parametrize("dims", [0, 1, 3])
def test_the_host_packs_as_many_bytes_as_the_kernels_read(counts, dims):
    of = params.Arity(*counts)
    (size,) = re.findall(r"sizeof\(Params\) == (\d+)", params.text(of, dims))
    fields = {f.name: 0 for f in params.FROZEN}
    packed = params.packer(of).size + 16 * (of.components + of.told) + len(params.frozen(of, dims, **fields))
    assert packed == int(size)


def test_a_launch_packs_what_its_kernel_reads():
    average = Fused(
        "affine", "f4: f4 f4:", (40, 300), 1, lambda a, x, b: (a, b * x), lambda p, a, x, b, i: p[1] - x
    )
    for (plan, choice), numbers in ((case(), 0), (fused(average), 2)):
        (size,) = re.findall(r"sizeof\(Params\) == (\d+)", choice.spec(plan))
        packed = params.packer(text.arity(plan, choice.layout)).size + 16 * numbers
        assert packed + len(launch._start_values(plan)) + len(launch._freeze(plan, choice, 1)) == int(size)


def test_a_field_that_one_side_lacks_is_found_by_the_compiler():
    plan, choice = case()
    spec = choice.spec(plan)
    with pytest.raises(EngineError, match="the host packs other parameters"):
        compile._compile(
            compile.text(choice.kernel, spec.replace("  i64 rows;", "  i64 rows, more[2];")), 90, linked=False
        )


def test_fields_are_packed_by_name_and_never_overflow():
    fields = {f.name: 0 for f in params.FROZEN}
    with pytest.raises(ValueError, match=f"room for {params.LEVELS} words"):
        params.frozen(params.Arity(1, 1, 1), 1, **{**fields, "level_first": [1] * (params.LEVELS + 1)})
    with pytest.raises(ValueError, match="no fields twice"):
        params.frozen(params.Arity(1, 1, 1), 1, **fields, twice=1)
