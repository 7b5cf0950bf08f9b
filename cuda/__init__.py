"""CUDA devices (`torch.cuda`): which there are, which is current, streams and events, memory and random numbers.

A `device` argument is an index, a device, a string, or None for the current device. With
``TRITEN_CUDA=interpret`` the devices are simulated. A name's module is imported with its first use, so that a program
on the CPU loads none of this.
"""

from ..runtime.errors import OutOfMemoryError as OutOfMemoryError
from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".memory": (
        "MemPool caching_allocator_alloc caching_allocator_delete change_current_allocator cupy_allocator "
        "empty_cache get_allocator_backend get_per_process_memory_fraction max_memory_allocated "
        "max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats "
        "memory_stats_as_nested_dict memory_summary reset_accumulated_memory_stats reset_peak_memory_stats "
        "set_per_process_memory_fraction use_mem_pool"
    ),
    ".random": (
        "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
        "set_rng_state_all"
    ),
    ".tensor_types": (
        "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
        "ShortTensor"
    ),
    ".graphed_callables": "make_graphed_callables",
    "..runtime.cuda.devices": (
        "can_device_access_peer current_blas_handle current_device device device_count device_of "
        "get_arch_list get_device_capability get_device_name get_device_properties init is_available "
        "is_bf16_supported is_initialized is_tf32_supported set_device synchronize"
    ),
    "..runtime.cuda.event": "Event",
    "..runtime.cuda.graph": "CUDAGraph graph graph_pool_handle is_current_stream_capturing",
    "..runtime.cuda.memory.pinned": (
        "host_memory_stats host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats "
        "reset_peak_host_memory_stats"
    ),
    "..runtime.cuda.stream": (
        "ExternalStream Stream StreamContext current_stream default_stream get_stream_from_external "
        "set_stream stream"
    ),
}
"""The names of each module."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, ("amp", "memory", "random"))
__all__ += ["OutOfMemoryError"]
