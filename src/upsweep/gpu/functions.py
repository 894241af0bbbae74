"""The functions that a kernel computes: the map, the operator and the finish, as functors of C++ or as functions of Python to
be linked in.

A function of Python that is not written as C++ is compiled to LTO-IR by numba-cuda, so that it is inlined like a functor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from upsweep import dtypes
from upsweep.arithmetic import LogAddExp
from upsweep.engine import EngineError
from upsweep.function import Function, unchanged
from upsweep.gpu.written import Unwritten, written
from upsweep.operator import Operator, uncompilable
from upsweep.operators import Variant, variant_of
from upsweep.plan import Plan


def memory_type(dtype: np.dtype) -> str:
    """The C type that holds an item of this dtype in memory."""
    return _known(dtype).memory


def value_type(dtype: np.dtype) -> str:
    """The C type that an item of this dtype is computed in."""
    return _known(dtype).value


def _known(dtype: np.dtype) -> dtypes.DType:
    known = dtypes.row(dtype)
    if known is None or not dtype.isnative:
        raise EngineError(f"the cuda engine does not scan {dtype}")
    return known


Parts = tuple[np.dtype, ...]
_INDEX: Parts = (np.dtype(np.int64),)


class Linked(NamedTuple):
    """A Python function that is linked into a kernel, as a C function of pointers: to the parts of each operand, and to the
    parts of the results.
    """

    symbol: str
    function: Operator | Function
    operands: tuple[Parts, ...]
    results: Parts

    def parts(self) -> Parts:
        return tuple([d for parts in (*self.operands, self.results) for d in parts])


def linked(plan: Plan) -> tuple[Linked, ...]:
    """The Python functions of a plan that are linked in: there is no functor for them, and they are not written as C++."""
    found: list[Linked] = []
    for symbol, function in (("map", plan.map), ("operator", plan.op), ("finish", plan.finish)):
        if function is not None and _functor_of(function, plan) is None:
            each = _python(plan, symbol, function)
            if _written(each) is None:
                found.append(each)
    return tuple(found)


def _python(plan: Plan, symbol: str, function: Operator | Function) -> Linked:
    return Linked(f"upsweep_{symbol}", function, *_signature(plan, symbol))


@lru_cache(1024)
def _written(each: Linked) -> str | None:
    """The function as C++, of variables p0, p1 and so on; None where numba-cuda compiles it."""
    unchanged(each.function)
    names = (f"p{k}" for k in count())
    operands = [[(d, next(names)) for d in parts] for parts in each.operands]
    try:
        return written(each.function.fn, operands, [(d, next(names)) for d in each.results])
    except Unwritten:
        return None


def _called(each: Linked, pointers: Sequence[str]) -> str:
    """The C++ that computes a Python function: a call, or its own lines."""
    lines = _written(each)
    if lines is None:
        return f"{each.symbol}({', '.join(pointers)});"
    return "".join([*(f"auto& p{k} = *{pointer}; " for k, pointer in enumerate(pointers)), lines])


def _functor_of(function: Operator | Function, plan: Plan) -> Variant | None:
    """The built-in functor of an operator, or of the finish of a recurrence's gradients."""
    # An operator's function may be a user's map.
    if isinstance(function, Function) and function.arity > 1:
        return None
    known = variant_of(function, plan.accumulators)
    return known and known[1]


def _signature(plan: Plan, symbol: str) -> tuple[tuple[Parts, ...], Parts]:
    """The dtypes of the parts of each operand, and of the results."""
    inputs = tuple([(dtypes.accumulator(d),) for d in plan.loads])
    if symbol == "map" and plan.map is not None:
        return (*inputs, _INDEX)[: plan.map.arity], tuple(map(dtypes.accumulator, plan.map.results))
    if symbol == "finish" and plan.finish is not None:
        operands = (plan.accumulators, *inputs, _INDEX)
        return operands[: plan.finish.arity], tuple(map(dtypes.accumulator, plan.finish.results))
    return (plan.accumulators, plan.accumulators), plan.accumulators


def given(plan: Plan) -> Parts:
    """The dtypes that items are read in."""
    if plan.map is plan.finish is None:
        return plan.accumulators
    return tuple(map(dtypes.accumulator, plan.loads))


def reads_again(plan: Plan) -> bool:
    """Whether the finish gets inputs of its item."""
    return plan.finish is not None and plan.finish.arity > 1


def read_by_finish(plan: Plan) -> tuple[bool, ...]:
    """Which inputs the finish of an item reads."""
    if plan.finish is None:
        return (False,) * len(plan.loads)
    each, first = _python(plan, "finish", plan.finish), len(plan.accumulators)
    given, lines = len(each.operands) - 1, _written(each)
    return tuple(
        [i < given and (lines is None or f"p{first + i}" in _names(lines)) for i in range(len(plan.loads))]
    )


def handed_on(plan: Plan) -> tuple[bool, ...]:
    """Which components of its right operand the operator hands on as they are, on all of its paths."""
    parts = len(plan.accumulators)
    lines = _written(_python(plan, "operator", plan.op))
    ends = {c: re.findall(rf"\bp{2 * parts + c} = ([^;]*);", lines or "") for c in range(parts)}
    return tuple([lines is not None and set(ends[c]) == {f"p{parts + c}"} for c in range(parts)])


def _names(lines: str) -> set[str]:
    return set(re.findall(r"\w+", lines))


def functions_text(plan: Plan) -> str:
    """The functors of a scan: `Map` of what is `Given`, an item of each array that is read; `Op` of two of the `Item`s that
    the map gives; and `Finish` of a prefix, whose `Result` is written.
    """
    declarations = [
        f'extern "C" __device__ void {each.symbol}({", ".join(f"{value_type(d)}*" for d in each.parts())});\n'
        for each in linked(plan)
    ]
    types = f"typedef {_tuple(plan.accumulators)} Item;\ntypedef {_tuple(given(plan))} Given;\n"
    truths = {
        "READS_AGAIN": reads_again(plan),
        "REVERSE": plan.reverse,
    }
    said = "".join(f"constexpr bool {name} = {str(value).lower()};\n" for name, value in truths.items())
    return "".join([types, said, *declarations, _map_text(plan), _operator_text(plan), _finish_text(plan)])


def _tuple(parts: Sequence[np.dtype], type_of: Callable[[np.dtype], str] = value_type) -> str:
    return f"Tuple<{', '.join(map(type_of, parts))}>"


def _pointers(place: str, count: int) -> list[str]:
    """To the parts of a tuple."""
    return [f"&get<{i}>({place})" for i in range(count)]


def _map_text(plan: Plan) -> str:
    takes = "Given given, i64 index"
    if plan.map is None:
        values = [
            f"get<{c}>(item) = convert<{value_type(d)}>(get<{c}>(given));"
            for c, d in enumerate(plan.accumulators)
        ]
        return _functor("Map", "Item", takes, f"Item item; {' '.join(values)} return item;")
    each = _python(plan, "map", plan.map)
    results = each.results
    passed = [*_pointers("given", len(plan.loads)), "&index"][: len(each.operands)]
    call = _called(each, [*passed, *_pointers("made", len(results))])
    values = [
        f"get<{c}>(item) = convert<{value_type(d)}>(convert<{memory_type(r)}>(get<{c}>(made)));"
        for c, (d, r) in enumerate(zip(plan.accumulators, plan.map.results))
    ]
    body = f"{_tuple(results)} made; {call} Item item; {' '.join(values)} return item;"
    return _functor("Map", "Item", takes, body)


def _functor(name: str, gives: str, takes: str, body: str) -> str:
    return f"struct {name} {{ __device__ __forceinline__ {gives} operator()({takes}) const {{ {body} }} }};\n"


def _operator_text(plan: Plan) -> str:
    accumulators, variant = plan.accumulators, _functor_of(plan.op, plan)
    if variant is not None:
        numbers = "" if variant.numbers is None else _numbers(variant.numbers, accumulators[0])
        last = all(d is None for d in plan.stores[:-1])
        state = variant.state if plan.order == "sequential" and plan.finish is None and last else ""
        return f"{numbers}typedef {state or variant.functor} Op;\n"
    operands = [pointer for side in "abr" for pointer in _pointers(side, len(accumulators))]
    call = _called(_python(plan, "operator", plan.op), operands)
    return _functor("Op", "Item", "Item a, Item b", f"Item r; {call} return r;")


def _finish_text(plan: Plan) -> str:
    finish = plan.finish
    kept = [c for c, d in enumerate(plan.stores) if d is not None]
    takes = "Item s, Given given, i64 index"
    if finish is None:
        result = _tuple([plan.accumulators[c] for c in kept])
        copies = " ".join(f"get<{o}>(r) = get<{c}>(s);" for o, c in enumerate(kept))
        return f"typedef {result} Result;\n" + _functor(
            "Finish", "Result", takes, f"Result r; {copies} return r;"
        )
    known = _functor_of(finish, plan)
    if known is not None:
        call = f"Item made = {known.functor}()(s);"
    else:
        each = _python(plan, "finish", finish)
        parts = len(plan.accumulators)
        places = [*_pointers("s", parts), *_pointers("given", len(plan.loads)), "&index"]
        passed = places[: parts + len(each.operands) - 1]
        call = (
            f"{_tuple(each.results)} made; {_called(each, [*passed, *_pointers('made', len(each.results))])}"
        )
    result = _tuple([finish.results[c] for c in kept], memory_type)
    copies = " ".join(
        f"get<{o}>(r) = convert<{memory_type(finish.results[c])}>(get<{c}>(made));"
        for o, c in enumerate(kept)
    )
    return f"typedef {result} Result;\n" + _functor(
        "Finish", "Result", takes, f"{call} Result r; {copies} return r;"
    )


def _numbers(numbers: LogAddExp, dtype: np.dtype) -> str:
    """The constants of LogAddExp, in digits that lose nothing."""
    real, _, mantissa, far, exp2, log1p = numbers
    lists = [[float(real(x)).hex() for x in terms] for terms in (exp2, log1p)]
    exp2, log1p = (f"[{len(terms)}] = {{{', '.join(terms)}}}" for terms in lists)
    # An instruction has room for a number of four bytes, and takes a larger one from there.
    memory = "constexpr" if dtype.itemsize == 4 else "__constant__"
    return (
        f"struct Numbers {{ int mantissa = {mantissa}; u{8 * dtype.itemsize} bits = 0; "
        f"{value_type(dtype)} far = {far}, exp2{exp2}, log1p{log1p}; static const Numbers& held(); }};\n"
        f"{memory} Numbers numbers{{}};\ninline const Numbers& Numbers::held() {{ return numbers; }}\n"
    )


def python_ltoir(each: Linked, arch: int) -> bytes:
    """A Python function as a C function of pointers."""
    from numba import from_dtype, types

    from upsweep.device_functions import compiler, numba_cuda, scalars_on_device

    cuda = numba_cuda()
    names = [
        [f"p{i}_{j}" for j in range(len(parts))] for i, parts in enumerate((*each.operands, each.results))
    ]
    *given, stored = names
    # One part alone is no tuple.
    loads = [
        [f"{p}[0] != 0" if d.kind == "b" else f"{p}[0]" for p, d in zip(parts, dtypes)]
        for parts, dtypes in zip(given, each.operands)
    ]
    values = [f"({', '.join(parts)})" for parts in loads]
    stores = [f"{p}[0] = r" if len(stored) == 1 else f"{p}[0] = r[{j}]" for j, p in enumerate(stored)]
    lines = [
        f"def {each.symbol}({', '.join(p for parts in names for p in parts)}):",
        f"r = returned(function({', '.join(values)}))",
    ]
    # numba stores no bool by a pointer, and puts none that it has read so into a tuple.
    pointers = [types.CPointer(types.uint8 if d.kind == "b" else from_dtype(d)) for d in each.parts()]
    try:
        scope = {
            "function": scalars_on_device(each.function.fn),
            "returned": compiler().returned(each.results, len(stored) == 1),
        }
        # numba wants a function of fixed arity.
        exec("\n    ".join([*lines, *stores]), scope)
        code, _ = cuda.compile(  # pyright: ignore[reportPrivateImportUsage]
            scope[each.symbol],
            types.void(*pointers),
            output="ltoir",
            device=True,
            abi="c",
            abi_info={"abi_name": each.symbol},
            cc=(arch // 10, arch % 10),
        )
    except Exception as error:
        raise uncompilable(each.function, error) from error
    return code
