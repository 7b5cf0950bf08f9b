"""Apple's GPUs (`torch.mps`), of which triten can use none: what programs ask is answered as without one."""

from types import ModuleType
from typing import Any

from .runtime.absent_device import absent_device


def _error(name: str) -> Exception:
    return RuntimeError(f"mps.{name}: triten has no kernels for Apple's GPUs, which 'mps' stands for")


globals().update(
    absent_device(
        __name__,
        _error,
        {"is_available": False, "device_count": 0, "manual_seed": None},
        "compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state load_metallib "
        "recommended_max_memory seed set_per_process_memory_fraction set_rng_state synchronize",
        "Event",
    )
)

profiler = ModuleType(
    f"{__name__}.profiler", "Traces of Apple's GPUs (`torch.mps.profiler`), of which there are none."
)
vars(profiler).update(
    absent_device(
        profiler.__name__,
        lambda name: _error(f"profiler.{name}"),
        {"is_capturing_metal": False, "is_metal_capture_enabled": False},
        "metal_capture profile start stop",
        "",
    )
)
globals()["__all__"].append("profiler")


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
