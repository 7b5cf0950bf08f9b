"""Exceptions and warnings of the exporter (`torch.onnx.errors`)."""

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]


class OnnxExporterWarning(UserWarning):
    """A model that is exported may not be what was meant."""


class OnnxExporterError(RuntimeError):
    """A model cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator, or a way to call it, has no translation."""


class SymbolicValueError(OnnxExporterError):
    """A symbolic function does not support a value; for functions that programs register."""

    def __init__(self, msg: str, value: object) -> None:
        super().__init__(f"{msg}  [Caused by the value {value!r}]")
