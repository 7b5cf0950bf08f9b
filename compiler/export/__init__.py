"""`tt.export`: programs captured ahead of time, saved with tensors and kernels, run elsewhere (`torch.export`).

- `frontend` captures a module.
- `lifting` makes the tensors that the module holds and writes inputs and outputs, which `signature` describes.
- `program` is the result, `module` wraps it as a module, and `execution` runs a call.
- `differentiability` decides if a program may be differentiated, and runs it so.
- `archive` writes and reads files, with JSON in `program_json`, `graph_json` and `trees`.
- `result_counts` refuses a step with too many results.
- `safetensors` stores the tensors.
- `kernels` stores compiled kernels, which `kernel_recording` makes in a process of its own.
- `dynamic_shapes` parses the dynamic dimensions of arguments.
- `size_probes` captures a module at several sizes and infers the expressions of a `dynamic_graph`.
- It uses `compiler.dynamic_shapes`; `size_json` writes the expressions.
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
