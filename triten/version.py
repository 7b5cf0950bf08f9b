"""`tt.version`: which triten this is (`torch.version`). `pyproject.toml` takes the number from here.

Example:
    >>> import triten as tt
    >>> tt.__version__ == tt.version.__version__
    True
"""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = "0.1.0"

debug = False
git_version = "Unknown"
"""PyTorch's word for a build that was not made in a clone; programs ask whether there is the name."""
hip: str | None = None
xpu: str | None = None
cuda: str | None
"""The CUDA version of CuPy's wheel, such as "13.0"; None without CuPy. Asked for with its first use."""


def __getattr__(name: str) -> str | None:
    if name != "cuda":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    global cuda
    try:
        from cupy.cuda import get_local_runtime_version
    except ImportError:
        cuda = None
    else:
        number = get_local_runtime_version()
        cuda = f"{number // 1000}.{number % 1000 // 10}"
    return cuda
