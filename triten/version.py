"""`tt.version`: which triten this is (`torch.version`).

`__version__` is the version of the installed package. A checkout has the development version of the first tag: its
commit is in `python -m triten.utils.collect_env`, and asking git would take longer than the import.

Example:
    >>> import triten as tt
    >>> tt.__version__ == tt.version.__version__
    True
"""

from __future__ import annotations

import os

from ._source_version import FIRST

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]


def _installed_version() -> str:
    """Return the version in the name of the metadata's folder beside the package; `FIRST`'s for a checkout."""
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ending = ".dist-info"
    names = [n for n in os.listdir(beside) if n.startswith("triten-") and n.endswith(ending)]
    return names[0].removeprefix("triten-").removesuffix(ending) if names else f"{FIRST}.dev0"


__version__: str = _installed_version()
"""The version, such as ``0.2.0``, or ``0.2.1.dev5+g1234567`` five commits after that tag."""

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
