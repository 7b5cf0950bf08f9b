"""Precision of float32 matmuls on CUDA: IEEE 754, or on tensor cores with operands rounded to TF32.

There is one process-wide state, as in ATen/Context.cpp: a precision for each kind of operator, and the values of the
older flags, which distinguish fewer states. `on_change` notifies code that depends on the state.
"""

from __future__ import annotations

from collections.abc import Callable

PRECISIONS = ("ieee", "tf32", "none")
"""Precisions of an operator: "none" leaves it to the default, which is IEEE 754."""
MATMUL_PRECISIONS = ("highest", "high", "medium")

on_change: list[Callable[[], object]] = []
"""Callbacks after any change that affects matmuls or convolutions."""

_MIXED = (
    "PyTorch is checking {setting}. Current status indicate that you have used mix of the legacy and new APIs to set "
    "the {status}. We suggest only using the new API, fp32_precision"
)


class _State:
    """Precisions by kind of operator, and the older flags."""

    def __init__(self) -> None:
        self.precision = {"matmul": "none", "conv": "tf32"}
        self.matmul_precision = "highest"
        self.convolution_flag = True


_state = _State()


def matmul_allows_tf32() -> bool:
    """Return True if float32 matmuls may round their operands to TF32."""
    return _state.precision["matmul"] == "tf32"


def convolution_allows_tf32() -> bool:
    """Return True if float32 convolutions may round their operands to TF32."""
    return _state.precision["conv"] == "tf32"


def precision_of(operator: str) -> str:
    """Return the precision of ``"matmul"`` or ``"conv"``: one of `PRECISIONS`."""
    return _state.precision[operator]


def set_precision(operator: str, precision: str) -> None:
    """Set the precision of ``"matmul"`` or ``"conv"``.

    Raises:
        TypeError: for anything but a string.
        RuntimeError: for a string that is not one of `PRECISIONS`.
    """
    if not isinstance(precision, str):
        raise TypeError(f"fp32_precision expects a str, but got {type(precision).__name__}")
    if precision == "bf16":
        raise RuntimeError("backend 'cuda' does not support precision 'bf16'")
    if precision not in PRECISIONS:
        raise RuntimeError(f"Unknown precision: {precision}")
    before = _state.precision[operator]
    _state.precision[operator] = precision
    if (before == "tf32") is not (precision == "tf32"):
        for changed in on_change:
            changed()


def allow_tf32_matmul() -> bool:
    """Return the older flag of matmuls. Raise RuntimeError if the newer interface contradicts it."""
    allows = _state.matmul_precision != "highest"
    if allows is not matmul_allows_tf32():
        setting = "whether allow_tf32 is enabled for cuBlas matmul"
        raise RuntimeError(_MIXED.format(setting=setting, status="TF32 status for cublas matmul"))
    return allows


def set_allow_tf32_matmul(allow: bool) -> None:
    """Set the older flag of matmuls. Raise RuntimeError for anything but a bool."""
    if not isinstance(allow, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(allow).__name__}")
    _state.matmul_precision = "high" if allow else "highest"
    set_precision("matmul", "tf32" if allow else "ieee")


def allow_tf32_convolution() -> bool:
    """Return the older flag of convolutions. Raise RuntimeError if the newer interface contradicts it."""
    if _state.convolution_flag is not convolution_allows_tf32():
        setting = "whether allow_tf32 is enabled for cuDNN"
        raise RuntimeError(_MIXED.format(setting=setting, status="TF32 status for cudnn"))
    return _state.convolution_flag


def set_allow_tf32_convolution(allow: bool) -> None:
    """Set the older flag of convolutions. Raises RuntimeError for anything but a bool."""
    if not isinstance(allow, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(allow).__name__}")
    _state.convolution_flag = allow
    set_precision("conv", "tf32" if allow else "none")


def get_float32_matmul_precision() -> str:
    """Return the precision of float32 matmuls (`torch.get_float32_matmul_precision`).

    Returns:
        "highest", "high" or "medium", as in `set_float32_matmul_precision`.

    Raises:
        RuntimeError: ``backends.cuda.matmul.fp32_precision`` has since been set to something else.

    Example:
        >>> import triten as tt
        >>> tt.get_float32_matmul_precision()
        'highest'
    """
    if (_state.matmul_precision != "highest") is not matmul_allows_tf32():
        setting = "the matmul precision without a specific backend name"
        raise RuntimeError(_MIXED.format(setting=setting, status="matmul precision"))
    return _state.matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matmuls (`torch.set_float32_matmul_precision`).

    Args:
        precision: "highest" multiplies and adds in float32 as in IEEE 754. "high" and "medium" let CUDA devices round
            the operands to TF32, ten bits of mantissa, and multiply them on tensor cores with float32 accumulation.
            Matmuls on the CPU always use "highest".

    Raises:
        RuntimeError: `precision` is anything else.

    Example:
        >>> import triten as tt
        >>> tt.set_float32_matmul_precision("high")
        >>> tt.backends.cuda.matmul.allow_tf32
        True
        >>> tt.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in MATMUL_PRECISIONS:
        raise RuntimeError(
            f"set_float32_matmul_precision: {precision} is not one of 'highest', 'high', or 'medium'"
        )
    _state.matmul_precision = precision
    set_precision("matmul", "ieee" if precision == "highest" else "tf32")
