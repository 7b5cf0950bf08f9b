"""`tt.export`: programs captured ahead of time, saved with tensors and kernels, run elsewhere (`torch.export`).

`frontend` captures a module; `lifting` makes inputs and outputs of what the module holds and writes, which `signature`
describes. `program` is the result, `module` a module of it, and `execution` what a call runs. `archive` writes and
reads files: `program_json`, `graph_json` and `trees` what is JSON there, `safetensors` the tensors.
"""

from .archive import load, save
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
    "ExportGraphSignature",
    "ExportedProgram",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "TensorArgument",
    "export",
    "load",
    "save",
]
