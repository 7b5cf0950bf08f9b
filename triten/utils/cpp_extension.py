"""Extensions in C++ and CUDA (`torch.utils.cpp_extension`), which are refused: there is no libtorch to link with.

Programs import these names to build extensions only where they can. Kernels of one's own are Triton's or CuPy's.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "CUDA_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "verify_ninja_availability",
]

CUDA_HOME: str | None = None
"""None: no extension is built with CUDA's compiler."""
ROCM_HOME: str | None = None


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.utils.cpp_extension.{name}: extensions in C++ and CUDA cannot be built, since triten has no libtorch; "
        "write the kernel in Triton (tt.library.triton_op) or register a Python function (tt.library.custom_op)"
    )


def load(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to build an extension from files. Raises NotImplementedError.

    Example:
        >>> from triten.utils.cpp_extension import load
        >>> load("kernels", ["kernels.cu"])
        Traceback (most recent call last):
        NotImplementedError: torch.utils.cpp_extension.load: extensions in C++ and CUDA cannot be built...
    """
    _refuse("load")


def load_inline(name: str, cpp_sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to build an extension from texts. Raises NotImplementedError."""
    _refuse("load_inline")


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to describe an extension in C++. Raises NotImplementedError."""
    _refuse("CppExtension")


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to describe an extension in CUDA. Raises NotImplementedError."""
    _refuse("CUDAExtension")


class BuildExtension:
    """Build command of setuptools for extensions; no object can be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError."""
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return the class itself, which refuses whatever the options."""
        return cls


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> NoReturn:
    """Refuse to name the folders of PyTorch's headers. Raises NotImplementedError."""
    _refuse("include_paths")


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> NoReturn:
    """Refuse to name the folders of PyTorch's libraries. Raises NotImplementedError."""
    _refuse("library_paths")


def is_ninja_available() -> bool:
    """Return False: nothing is built with ninja."""
    return False


def verify_ninja_availability() -> NoReturn:
    """Raise RuntimeError, as PyTorch does without ninja."""
    raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")
