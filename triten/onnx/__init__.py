"""`tt.onnx`: ONNX export (`torch.onnx`), which needs the package ``onnx``.

- `exporter.py` traces a model (`tt.func.make_graph`) and translates its graph.
- `operators.py` has the translation of each operator.
- `builder.py` builds the ONNX graph.
- `symbolic.py` has the symbolic functions of custom operators, which programs register.

PyTorch has a module of symbolic functions for each opset version, such as `symbolic_opset9`. Here each of these modules
has all translations.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from . import errors as errors
    from . import symbolic_helper as symbolic_helper
    from .errors import OnnxExporterError, UnsupportedOperatorError
    from .exporter import ONNXProgram, export, is_in_onnx_export
    from .symbolic import TensorProtoDataType, register_custom_op_symbolic, unregister_custom_op_symbolic

    __all__ = [
        "ONNXProgram",
        "OnnxExporterError",
        "TensorProtoDataType",
        "UnsupportedOperatorError",
        "errors",
        "export",
        "is_in_onnx_export",
        "register_custom_op_symbolic",
        "symbolic_helper",
        "unregister_custom_op_symbolic",
    ]
else:
    _find, __dir__, __all__ = lazy_names(
        __package__,
        {
            ".exporter": "ONNXProgram export is_in_onnx_export",
            ".errors": "OnnxExporterError UnsupportedOperatorError",
            ".symbolic": "TensorProtoDataType register_custom_op_symbolic unregister_custom_op_symbolic",
        },
        ["errors", "symbolic_helper"],
    )

    def __getattr__(name):
        return _of_opset(name) if name.startswith("symbolic_opset") and name[14:].isdecimal() else _find(name)


def _of_opset(name: str) -> ModuleType:
    """Return the module ``symbolic_opsetN``; create it on first use."""
    from .symbolic import symbolic_function, symbolic_names

    module = ModuleType(
        f"{__package__}.{name}", "Translations of ATen's operators, for those of custom ones."
    )
    vars(module).update(__getattr__=symbolic_function, __dir__=symbolic_names)
    return sys.modules.setdefault(module.__name__, module)
