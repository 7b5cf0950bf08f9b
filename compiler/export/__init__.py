"""`tt.export`: programs captured ahead of time, saved with tensors and kernels, run elsewhere (`torch.export`).

`frontend` captures a module; `lifting` makes inputs and outputs of what the module holds and writes, which `signature`
describes. `program` is the result, `module` a module of it, and `execution` what a call runs; `differentiability` says
whether that may be differentiated, and runs it so. `archive` writes and
reads files: `program_json`, `graph_json` and `trees` what is JSON there (a step that
gives too many results is refused by `result_counts`), `safetensors` the tensors, `kernels` compiled
kernels, which `kernel_recording` makes in a process of its own.

`dynamic_shapes` says which sizes of arguments may differ from call to call; `size_probes` captures a module at several
and finds the expressions of a `dynamic_graph`, by the means of `compiler.dynamic_shapes`; `size_json` writes them.
"""

from .archive import load, save
from .dynamic_shapes import Dim, ValueRange, dims
from .frontend import export
from .program import ExportedProgram
from .signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

__all__ = [
    "ConstantArgument",
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "TensorArgument",
    "ValueRange",
    "dims",
    "export",
    "load",
    "save",
]
