"""Lazy `triton`, `tl`, `libdevice` and `cuda_extra` for kernel modules, without importing Triton.

A kernel's author follows Triton's documentation; only the imports differ::

    from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton

    @triton.jit
    def double(x, out, n, BLOCK: tl.constexpr): ...

A decorated function is a `LazyKernel`. Host code may use `tl`'s dtypes, `tl.dtype`, `tl.constexpr` and
`tl.str_to_ty`; everything else of Triton exists inside kernels only. `real_triton.py` imports Triton when the first
kernel must be compiled or interpreted.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from .lazy_kernel import TRITON, LazyKernel

__all__ = ["cuda_extra", "dtype", "jit", "libdevice", "stand_in", "str_to_ty", "tl", "triton"]

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("int1", "uint8", "uint16", "uint32", "uint64")
STANDARD_FLOATS = ("fp16", "bf16", "fp32", "fp64")
FLOATS = ("fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", *STANDARD_FLOATS)
NAMES = {
    "fp8e4b15": "float8e4b15",
    "fp8e4nv": "float8e4nv",
    "fp8e4b8": "float8e4b8",
    "fp8e5": "float8e5",
    "fp8e5b16": "float8e5b16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
}
"""Names in `tl` of the dtypes that have a different name of their own."""


class dtype:
    """Dtype in a kernel (`triton.language.dtype`): one object for each type.

    Example:
        >>> tl.float16.name, tl.float16.primitive_bitwidth, tl.float16.is_floating(), tl.float16 == tl.int16
        ('fp16', 16, True, False)
    """

    __slots__ = ("itemsize", "name", "primitive_bitwidth")

    name: str
    """Triton's own name: ``fp32``, ``int64``."""
    primitive_bitwidth: int
    itemsize: int

    def __init__(self, name: str) -> None:
        self.name = name
        self.primitive_bitwidth = 8 if name.startswith("fp8") else int(name.lstrip("bfuintp"))
        self.itemsize = self.primitive_bitwidth // 8

    def is_floating(self) -> bool:
        return self.name in FLOATS

    def is_standard_floating(self) -> bool:
        return self.name in STANDARD_FLOATS

    def is_fp8(self) -> bool:
        return self.name.startswith("fp8")

    def is_int(self) -> bool:
        return self.name in SIGNED or self.name in UNSIGNED

    def is_int_signed(self) -> bool:
        return self.name in SIGNED

    def is_int_unsigned(self) -> bool:
        return self.name in UNSIGNED

    def is_bool(self) -> bool:
        return self.name == "int1"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{NAMES.get(self.name, self.name)}"

    def __reduce__(self) -> tuple[Callable[[str], dtype], tuple[str]]:
        return _dtype_of, (self.name,)


_DTYPES = {name: dtype(name) for name in (*SIGNED, *UNSIGNED, *FLOATS)}
_BY_SHORT_NAME = {name.replace("uint", "u").replace("int", "i"): type_ for name, type_ in _DTYPES.items()}


TYPES = {NAMES.get(name, name): type_ for name, type_ in _DTYPES.items()}
"""Dtypes by their name in kernel modules."""


def _dtype_of(name: str) -> dtype:
    return _DTYPES[name]


@dataclass(frozen=True, slots=True)
class constexpr:
    """Constant of a kernel's module, or the annotation of a constant parameter (`triton.language.constexpr`)."""

    value: Any


class StandIn:
    """Placeholder of a Triton module, with the parts that exist without Triton.

    Args:
        name: Name of the module, by which the real one is imported.
        contents: Attributes that host code may use.
    """

    def __init__(self, name: str, contents: dict[str, Any]) -> None:
        self.__dict__.update(contents)
        self.__name__ = name

    def __getattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(
            f"{self.__name__}.{attribute} exists inside kernels only: the module is a stand-in, "
            "so that a process which compiles nothing does not import Triton",
            name=attribute,
            obj=self,
        )

    def __repr__(self) -> str:
        return f"<stand-in for {self.__name__}>"


def str_to_ty(name: str, _c: object = None) -> dtype:
    """Return the dtype of a short name (`triton.language.str_to_ty`). Raise ValueError for any other.

    Example:
        >>> str_to_ty("i32")
        triton.language.int32
    """
    dtype_ = _BY_SHORT_NAME.get(name)
    if dtype_ is None:
        raise ValueError(f"str_to_ty(): expected one of {sorted(_BY_SHORT_NAME)}, got {name!r}")
    return dtype_


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    version: object = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Iterable[int | str] | None = None,
    do_not_specialize_on_alignment: Iterable[int | str] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Any:
    """Return a lazy kernel with the options of `triton.jit`; compile and import nothing."""
    options = {
        "version": version,
        "repr": repr,
        "launch_metadata": launch_metadata,
        "do_not_specialize": do_not_specialize,
        "do_not_specialize_on_alignment": do_not_specialize_on_alignment,
        "debug": debug,
        "noinline": noinline,
    }
    return jit_as(TRITON, fn, {name: value for name, value in options.items() if value is not None})


def jit_as(language: str, fn: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    """Return a lazy kernel in a language, or without a function a decorator that creates it."""
    if fn is None:
        return functools.partial(LazyKernel, options=options, language=language)
    return LazyKernel(fn, options, language)


def module_if_imported(name: str) -> Any:
    """Return a module of the real Triton if the process has imported Triton; else None.

    If another thread is importing Triton, wait until the import is complete.
    """
    if sys.modules.get("triton") is None:
        return None
    importlib.import_module("triton")
    return importlib.import_module(name)


def stand_in(value: Any) -> Any:
    """Return the placeholder for a real Triton type in a user's kernel; return anything else unchanged."""
    core = module_if_imported("triton.language.core")
    if core is None:
        return value
    if value is core.constexpr:
        return constexpr
    return _DTYPES.get(value.name, value) if isinstance(value, core.dtype) else value


if TYPE_CHECKING:
    import triton
    import triton.language as tl
    from triton.language.extra import cuda as cuda_extra
    from triton.language.extra import libdevice
else:
    triton = StandIn("triton", {"jit": jit})
    tl = StandIn(
        "triton.language",
        {"constexpr": constexpr, "dtype": dtype, "str_to_ty": str_to_ty, **TYPES},
    )
    libdevice = StandIn("triton.language.extra.libdevice", {})
    cuda_extra = StandIn("triton.language.extra.cuda", {})
    triton.language = tl
