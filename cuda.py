"""CUDA devices (`torch.cuda`): which there are, which is current, streams and events, memory and random numbers.

A `device` argument is an index, a device, a string, or None for the current device. With
``TRITEN_CUDA=interpret`` the devices are simulated.
"""

from __future__ import annotations

from . import cuda_memory as memory
from .cuda_memory import *  # noqa: F403 - its names are declared there
from .cuda_memory import __all__ as _memory_names
from .dispatch.cuda_random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .dispatch.graphed_callables import make_graphed_callables
from .runtime.cuda.devices import (
    can_device_access_peer,
    current_blas_handle,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from .runtime.cuda.event import Event
from .runtime.cuda.graph import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing
from .runtime.cuda.pinned_memory import (
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    reset_accumulated_host_memory_stats,
    reset_peak_host_memory_stats,
)
from .runtime.cuda.stream import (
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from .runtime.errors import OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "memory",
    "reset_accumulated_host_memory_stats",
    "reset_peak_host_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    *_memory_names,
]
