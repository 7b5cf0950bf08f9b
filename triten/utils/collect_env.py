"""Environment information for bug reports (`torch.utils.collect_env`).

Run ``python -m triten.utils.collect_env`` and paste what it prints.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from .._source_version import ROOT, source_version
from ..runtime.blas_threads import loaded
from ..version import __version__

__all__ = ["get_env_info", "get_pretty_env_info", "main", "processor_name"]

PACKAGES = (
    "numpy", "ml_dtypes", "scipy", "llvmlite", "triton", "cupy-cuda13x", "cupy-cuda12x", "nvidia-nccl-cu13",
    "nvidia-nccl-cu12", "mpi4py", "safetensors", "torch",
)  # fmt: skip
VARIABLES = ("TRITEN_", "TRITON_", "CUDA_", "OMP_", "OPENBLAS_", "MKL_")


def get_env_info() -> dict[str, str]:
    """Return the versions, the processor, the GPUs and the environment variables, by label.

    A package that is not installed has the value ``"not installed"``. No package is imported for its version.

    Example:
        >>> from triten.utils.collect_env import get_env_info
        >>> list(get_env_info())[:3]
        ['triten', 'Python', 'System']
    """
    from ..runtime.parallel import get_num_threads

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    info = {
        "triten": source_version(ROOT) or __version__,
        "Python": sys.version.replace("\n", " "),
        "System": platform.platform(),
        "Processor": f"{processor_name()}, {cores} cores available",
        "Threads": str(get_num_threads()),
        "BLAS": ", ".join(os.path.basename(path) for path in loaded()) or "unknown",
        "CUDA": _cuda(),
    }
    info |= {name: _version(name) for name in PACKAGES}
    info |= {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)}
    return info


def processor_name() -> str:
    """Return the processor's model, or its architecture if the system does not name the model.

    Example:
        >>> from triten.utils.collect_env import processor_name
        >>> len(processor_name()) > 0
        True
    """
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cuda() -> str:
    from .. import cuda

    if not cuda.is_available():
        return "no GPU is available"
    names = [cuda.get_device_name(i) for i in range(cuda.device_count())]
    mode = os.environ.get("TRITEN_CUDA", "")
    return ", ".join(names) + (f" (TRITEN_CUDA={mode})" if mode else "")


def get_pretty_env_info() -> str:
    """Return `get_env_info` as text, a line for each part.

    Example:
        >>> from triten.utils.collect_env import get_pretty_env_info
        >>> "numpy" in get_pretty_env_info()
        True
    """
    info = get_env_info()
    width = max(map(len, info))
    return "\n".join(f"{name:{width}}  {value}" for name, value in info.items())


def main() -> None:
    """Print `get_pretty_env_info`."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
