"""`tt.__config__`: how triten and its libraries are set up (`torch.__config__`)."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the versions, the processor, the BLAS library and the GPUs, a line for each (`torch.__config__.show`).

    Example:
        >>> import triten as tt
        >>> tt.__config__.show().startswith("triten")
        True
    """
    from .utils.collect_env import get_pretty_env_info

    return get_pretty_env_info()


def parallel_info() -> str:
    """Return how many threads kernels on the CPU use, and where they come from (`torch.__config__.parallel_info`).

    Example:
        >>> import triten as tt
        >>> "get_num_threads" in tt.__config__.parallel_info()
        True
    """
    import os

    from .dispatch.functions.process_state import get_num_interop_threads
    from .runtime.parallel import get_num_threads

    lines = [
        f"tt.get_num_threads(): {get_num_threads()}",
        f"tt.get_num_interop_threads(): {get_num_interop_threads()}",
    ]
    lines += [
        f"{name}: {os.environ.get(name, '[not set]')}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    ]
    return "\n".join(lines) + "\n"
