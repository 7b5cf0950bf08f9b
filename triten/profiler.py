"""`tt.profiler`: what a program spends its time and memory on (`torch.profiler`).

The profiler itself is imported when one of its names is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    pass

_MODULES = {
    ".dispatch.layers.profiler.events": "DeviceType",
    ".dispatch.layers.profiler.profile": (
        "ExperimentalConfig ProfilerAction ProfilerActivity kineto_available profile record_function schedule "
        "supported_activities tensorboard_trace_handler"
    ),
}
"""The names of each module, all of them imported with their first use."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
