"""`tt.version`: which triten this is (`torch.version`).

`__version__` comes from the tags of a checkout, or from the metadata of an installed package, at its first use.

Example:
    >>> import triten as tt
    >>> tt.__version__ == tt.version.__version__
    True
"""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__: str
"""The version, such as ``0.2.0``, or ``0.2.1.dev5+g1234567`` five commits after that tag."""

debug = False
git_version = "Unknown"
"""PyTorch's word for a build that was not made in a clone; programs ask whether there is the name."""
hip: str | None = None
xpu: str | None = None
cuda: str | None
"""The CUDA version of CuPy's wheel, such as "13.0"; None without CuPy. Asked for with its first use."""


def __getattr__(name: str) -> str | None:
    if name == "__version__":
        return _version()
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


def _version() -> str:
    """Return the version of this checkout, or of the installed package."""
    global __version__
    from ._source_version import FIRST, ROOT, source_version

    found = source_version(ROOT)
    if found is None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version(__name__.partition(".")[0])
        except PackageNotFoundError:
            found = f"{FIRST}.dev0"  # a copy of the folder, neither a checkout nor installed
    __version__ = found
    return found
