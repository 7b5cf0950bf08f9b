"""How float32 products are multiplied on CUDA: exactly, or on tensor cores with operands rounded to TF32.

One state for the process, as in ATen/Context.cpp: a precision for each kind of operator, and beside it what the older
flags were set to, which can tell of fewer states. Whoever has decided by it is told of changes by `on_change`.
"""

from __future__ import annotations

from collections.abc import Callable

PRECISIONS = ("ieee", "tf32", "none")
"""What an operator's precision may be: "none" leaves it to the default, which is IEEE 754."""
MATMUL_PRECISIONS = ("highest", "high", "medium")

on_change: list[Callable[[], object]] = []
"""Called after any change that products or convolutions would notice."""

_MIXED = (
    "PyTorch is checking {what}. Current status indicate that you have used mix of the legacy and new APIs to set "
    "the {status}. We suggest only using the new API, fp32_precision"
)


class _State:
    """The precisions by kind of operator, and the older flags."""

    def __init__(self) -> None:
        self.precision = {"matmul": "none", "conv": "tf32"}
        self.matmul_precision = "highest"
        self.convolution_flag = True


_state = _State()


def matmul_allows_tf32() -> bool:
    """Whether matrix products of float32 may round their operands to TF32."""
    return _state.precision["matmul"] == "tf32"


def convolution_allows_tf32() -> bool:
    """Whether convolutions of float32 may round their operands to TF32."""
    return _state.precision["conv"] == "tf32"


def precision_of(operator: str) -> str:
    """The precision of ``"matmul"`` or ``"conv"``: one of `PRECISIONS`."""
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
    """The older flag of products. Raises RuntimeError where the newer interface says otherwise."""
    allows = _state.matmul_precision != "highest"
    if allows is not matmul_allows_tf32():
        what = "whether allow_tf32 is enabled for cuBlas matmul"
        raise RuntimeError(_MIXED.format(what=what, status="TF32 status for cublas matmul"))
    return allows


def set_allow_tf32_matmul(allow: bool) -> None:
    """Set the older flag of products. Raises RuntimeError for anything but a bool."""
    if not isinstance(allow, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(allow).__name__}")
    _state.matmul_precision = "high" if allow else "highest"
    set_precision("matmul", "tf32" if allow else "ieee")


def allow_tf32_convolution() -> bool:
    """The older flag of convolutions. Raises RuntimeError where the newer interface says otherwise."""
    if _state.convolution_flag is not convolution_allows_tf32():
        what = "whether allow_tf32 is enabled for cuDNN"
        raise RuntimeError(_MIXED.format(what=what, status="TF32 status for cudnn"))
    return _state.convolution_flag


def set_allow_tf32_convolution(allow: bool) -> None:
    """Set the older flag of convolutions. Raises RuntimeError for anything but a bool."""
    if not isinstance(allow, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(allow).__name__}")
    _state.convolution_flag = allow
    set_precision("conv", "tf32" if allow else "none")


def get_float32_matmul_precision() -> str:
    """The precision of float32 products (`torch.get_float32_matmul_precision`).

    Returns:
        "highest", "high" or "medium", as `set_float32_matmul_precision` takes them.

    Raises:
        RuntimeError: ``backends.cuda.matmul.fp32_precision`` was set to something else meanwhile.

    Example:
        >>> import triten as tt
        >>> tt.get_float32_matmul_precision()
        'highest'
    """
    if (_state.matmul_precision != "highest") is not matmul_allows_tf32():
        what = "the matmul precision without a specific backend name"
        raise RuntimeError(_MIXED.format(what=what, status="matmul precision"))
    return _state.matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how float32 matrix products are computed (`torch.set_float32_matmul_precision`).

    Args:
        precision: "highest" multiplies and adds in float32 as IEEE 754 has it. "high" and "medium" let CUDA devices
            round the operands to TF32, ten bits of mantissa, and multiply them on tensor cores with sums in float32.
            Products on the CPU are those of "highest" always.

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
