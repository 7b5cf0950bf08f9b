"""TorchScript's names for programs that use them (`torch.jit`). Nothing is compiled: Python runs.

Everything behaves as PyTorch does under ``PYTORCH_JIT=0``. `script` and `trace` return the function or module itself,
decorators return functions unchanged, and `is_scripting` and `is_tracing` return False. `freeze` and similar
functions, which PyTorch refuses for modules that are not compiled, return the module too. `load` and `save` refuse
TorchScript archives, which hold compiled programs; `tt.load` and `tt.save` read and write weights.

`_script.py` has the compiler's functions, `_types.py` its types, `_futures.py` `fork` and `wait`.
"""

from ._futures import Future, fork, wait
from ._script import (
    CompilationUnit,
    Error,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    ScriptWarning,
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    export,
    freeze,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    load,
    optimize_for_inference,
    optimized_execution,
    run_frozen_optimizations,
    save,
    script,
    script_if_tracing,
    script_method,
    strict_fusion,
    trace,
    trace_module,
    unused,
)
from ._script import _drop as _drop
from ._script import _overload as _overload
from ._script import _overload_method as _overload_method
from ._script import _script_if_tracing as _script_if_tracing
from ._types import Attribute, annotate, isinstance
from ._types import Final as Final

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
