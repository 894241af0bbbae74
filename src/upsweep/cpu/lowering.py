"""numba's half of the way: LLVM's code of our functions, without machine code.

numba would optimise each function, make machine code of it, and do so again in every function that calls it: that took half of
a kernel's time. Here functions are joined as they are, and only the whole is optimised (`compile`).
"""

from __future__ import annotations

from functools import cache, lru_cache
from types import BuiltinFunctionType
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.analysis import dead_branch_prune, rewrite_semantic_constants
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.errors import (
    NumbaWarning,
    WarningsFixer,  # pyright: ignore[reportAttributeAccessIssue]
)
from numba.core.interpreter import Interpreter
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor
from numba.core.rewrites.registry import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NoPythonSupportedFeatureValidation,
    PreLowerStripPhis,
)
from numba.core.typeinfer import TypeInferer


class Users(CompilerBase):
    """The way of a user's functions: numba's own pipeline without its last steps."""

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("upsweep")
        manager.passes += DefaultPassBuilder.define_untyped_pipeline(self.state).passes
        manager.passes += DefaultPassBuilder.define_typed_pipeline(self.state).passes
        for step in (NoPythonSupportedFeatureValidation, IRLegalization, _Lowering, NoPythonBackend):
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


class Ours(CompilerBase):
    """The way of our own functions, which hold nothing to inline, unroll, lift or free."""

    def define_pipelines(self) -> list[PassManager]:
        return [_Steps("upsweep_ours")]


class _Steps(PassManager):
    """The steps of our own functions. numba would tell listeners of each step, time it, look whether it left a well-formed
    function, and follow the life of each variable after each. Once is enough, at the end. Without it no variable is cleared
    where its life ends, and LLVM carries its value on: segments of float32 took 1.28 of their time, recurrences 1.11.
    """

    def run(self, state: Any) -> None:
        state.func_ir = _read(state)
        _typed(state)
        _without_phis(state.func_ir)
        PostProcessor(state.func_ir).run(emit_dels=True)
        _Lowering().run_pass(state)
        NoPythonBackend().run_pass(state)


def _read(state: Any) -> Any:
    """A function's bytecode as numba's instructions, each variable of which is set once."""
    code = Interpreter(state.func_id).interpret(state.bc)
    code.blocks = canonicalize_cfg(code.blocks)
    rewrite_semantic_constants(code, state.args)
    dead_branch_prune(code, state.args)
    state.func_ir = code
    rewrite_registry.apply("before-inference", state)
    reconstruct_ssa(code)
    code._definitions = build_definitions(code.blocks)
    dead_branch_prune(code, state.args)
    return code


def _typed(state: Any) -> None:
    """Find the types of a function's variables and calls."""
    found = _Types(state.typingctx, state.func_ir, WarningsFixer(NumbaWarning))
    with state.typingctx.callstack.register(state.targetctx.target, found, state.func_id, state.args):
        for index, (name, ty) in enumerate(zip(state.func_ir.arg_names, state.args)):
            found.seed_argument(name, index, ty)
        if state.return_type is not None:
            found.seed_return(state.return_type)
        found.build_constraint()
        found.propagate()
        state.typemap, state.return_type, state.calltypes = found.unify()


class _Types(TypeInferer):
    """numba's search for types. It remembers the types of builtin functions and of intrinsics, and of calls of these."""

    def resolve_value_type(self, inst: Any, val: Any) -> Any:
        if isinstance(val, BuiltinFunctionType):
            return _type_of(self.context, val)
        return super().resolve_value_type(inst, val)

    def resolve_call(self, fnty: Any, pos_args: Any, kw_args: Any) -> Any:
        if isinstance(fnty, types.Function) and not kw_args:
            return _signature(self.context, fnty, tuple(pos_args))
        return super().resolve_call(fnty, pos_args, kw_args)


@cache
def _type_of(context: Any, function: BuiltinFunctionType) -> Any:
    return context.resolve_value_type(function)


@lru_cache(4096)
def _signature(context: Any, function: Any, arguments: tuple[Any, ...]) -> Any:
    return context.resolve_function_type(function, arguments, {})


def _without_phis(code: Any) -> None:
    """Set the variables that paths of a function join at the ends of these paths."""
    PreLowerStripPhis()._strip_phi_nodes(code)
    code._definitions = build_definitions(code.blocks)


class _Library(CPUCodeLibrary):
    """The code of a function and of those that it calls. Functions are simplified one by one as they come. Without that,
    joined and optimised functions keep a kernel's items in memory instead of registers.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _Lower(Lower):
    """numba's writer of LLVM's code. It remembers the types of operators, and writes nothing for debuggers."""

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        operands = [(self.loadvar(x.name), self.typeof(x.name)) for x in (expr.lhs, expr.rhs)]
        wanted, typing = self.fndesc.calltypes[expr], self.context.typing_context
        given = [self.context.cast(self.builder, *x, ty) for x, ty in zip(operands, wanted.args)]
        function = _type_of(typing, op)
        code = self.context.get_function(function, _signature(typing, function, wanted.args))
        return self.context.cast(self.builder, code(self.builder, given), wanted.return_type, resty)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        return cgutils.alloca_once(self.builder, lltype, name=name)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Compile into a library of ours."""

    _name = "upsweep_lowering"
    lowering_class = _Lower  # pyright: ignore[reportAssignmentType]

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        # numba knows a function by the object that Python calls. Nobody calls this object, and no two are equal.
        made = state["cr"] = state["cr"]._replace(cfunc=[].append)
        state.targetctx.insert_user_function(made.cfunc, made.fndesc, [state.library])
        return True
