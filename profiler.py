"""`tt.profiler`: what a program spends its time and memory on (`torch.profiler`).

The profiler itself is imported when one of its names is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dispatch.functional.profiler.events import DeviceType
    from .dispatch.functional.profiler.profile import (
        ExperimentalConfig,
        ProfilerAction,
        ProfilerActivity,
        profile,
        record_function,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )

__all__ = [
    "DeviceType",
    "ExperimentalConfig",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Here and not in the package's own module, where it would slow every `tt.add` down: CPython looks names of a
        # module up without a cache where the module has this function.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .dispatch.functional.profiler import profile

        found = globals()[name] = getattr(profile, name)
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
