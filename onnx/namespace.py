"""`tt.onnx`: models as ONNX files (`torch.onnx`), through the package ``onnx``, which has to be installed.

`exporter.py` records the operators that a model calls (`tt.func.make_graph`) and writes them down; `operators.py` has a
translation of each operator, and `builder.py` what translations are made with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from .exporter import ONNXProgram, export, is_in_onnx_export
    from .operators import UnsupportedOperatorError

    __all__ = ["ONNXProgram", "UnsupportedOperatorError", "export", "is_in_onnx_export"]
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __package__,
        {".exporter": "ONNXProgram export is_in_onnx_export", ".operators": "UnsupportedOperatorError"},
    )
