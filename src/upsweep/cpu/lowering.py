"""numba's half of the way: LLVM's code of our functions, without machine code.

numba would optimise each function, make machine code of it, and do so again in every function that calls it: that took half of
a kernel's time. Here functions are joined as they are, and only the whole is optimised (`compile`).
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NoPythonSupportedFeatureValidation,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)


class Users(CompilerBase):
    """The way of a user's functions: numba's own pipeline without its last steps."""

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("upsweep")
        manager.passes += DefaultPassBuilder.define_untyped_pipeline(self.state).passes
        manager.passes += DefaultPassBuilder.define_typed_pipeline(self.state).passes
        return [_ended(manager, NoPythonSupportedFeatureValidation)]


class Ours(CompilerBase):
    """The way of our own functions, which hold nothing to inline, unroll, lift or rewrite: they become the same LLVM's code in
    three quarters of the time. numba would also look after each step whether the step left a well-formed function.
    """

    def define_pipelines(self) -> list[PassManager]:
        manager = PassManager("upsweep_ours")
        manager._ENFORCING = False
        return [_ended(manager, *_READING, ReconstructSSA, DeadBranchPrune, *_TYPING)]


_READING = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    RewriteSemanticConstants,
    DeadBranchPrune,
    GenericRewrites,
)
_TYPING = NopythonTypeInference, PreLowerStripPhis


def _ended(manager: PassManager, *steps: Any) -> PassManager:
    """A pipeline with these steps and the last ones."""
    for step in (*steps, IRLegalization, _Lowering, NoPythonBackend):
        manager.add_pass(step, step.__name__)
    manager.finalize()
    return manager


class _Library(CPUCodeLibrary):
    """The code of a function and of those that it calls. Functions are simplified one by one as they come. Without that,
    joined and optimised functions keep a kernel's items in memory instead of registers.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Compile into a library of ours."""

    _name = "upsweep_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        # numba knows a function by the object that Python calls. Nobody calls this object, and no two are equal.
        made = state["cr"] = state["cr"]._replace(cfunc=[].append)
        state.targetctx.insert_user_function(made.cfunc, made.fndesc, [state.library])
        return True
