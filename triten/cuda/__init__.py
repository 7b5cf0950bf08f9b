"""CUDA devices (`torch.cuda`): which there are, which is current, streams and events, memory and random numbers.

A `device` argument is an index, a device, a string, or None for the current device. With
``TRITEN_CUDA=interpret`` the devices are simulated. A name's module is imported with its first use, so that a program
on the CPU loads none of this.
"""

from typing import TYPE_CHECKING

from ..runtime.errors import OutOfMemoryError as OutOfMemoryError
from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".memory": (
        "MemPool caching_allocator_alloc caching_allocator_delete change_current_allocator cupy_allocator "
        "empty_cache get_allocator_backend get_per_process_memory_fraction max_memory_allocated max_memory_cached "
        "max_memory_reserved mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot "
        "memory_stats memory_stats_as_nested_dict memory_summary reset_accumulated_memory_stats "
        "reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats "
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
    ".nvml": (
        "clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature utilization"
    ),
    ".precompilation": "PrecompiledKernels is_precompiling precompile",
    ".runtime_api": "CudaError DeferredCudaCallError check_error cudaStatus cudart",
    "..runtime.cuda.devices": (
        "_DeviceGuard _exchange_device _maybe_exchange_device "
        "can_device_access_peer current_blas_handle current_device current_solver_handle device device_count "
        "device_of get_arch_list get_device_capability get_device_name get_device_properties get_gencode_flags "
        "init is_available "
        "is_bf16_supported is_initialized is_tf32_supported set_device synchronize"
    ),
    "..runtime.cuda.event": "Event",
    "..runtime.cuda.graph": "CUDAGraph graph graph_pool_handle is_current_stream_capturing",
    "..runtime.cuda.memory.pinned": (
        "host_memory_stats host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats "
        "reset_peak_host_memory_stats"
    ),
    "..runtime.cuda.sharing": "ipc_collect",
    "..runtime.cuda.sync_debug": "get_sync_debug_mode set_sync_debug_mode",
    "..runtime.cuda.stream": (
        "ExternalStream Stream StreamContext current_stream default_stream get_stream_from_external "
        "set_stream stream"
    ),
}
"""The names of each module."""

has_half = True
"""Whether float16 can be computed with: always (`torch.cuda.has_half`)."""
has_magma = False
"""Whether MAGMA is there: cuSOLVER and cuBLAS do its work (`torch.cuda.has_magma`)."""

if TYPE_CHECKING:
    from ..runtime.cuda.devices import _DeviceGuard as _DeviceGuard
    from ..runtime.cuda.devices import _exchange_device as _exchange_device
    from ..runtime.cuda.devices import _maybe_exchange_device as _maybe_exchange_device
    from ..runtime.cuda.devices import can_device_access_peer as can_device_access_peer
    from ..runtime.cuda.devices import current_blas_handle as current_blas_handle
    from ..runtime.cuda.devices import current_device as current_device
    from ..runtime.cuda.devices import current_solver_handle as current_solver_handle
    from ..runtime.cuda.devices import device as device
    from ..runtime.cuda.devices import device_count as device_count
    from ..runtime.cuda.devices import device_of as device_of
    from ..runtime.cuda.devices import get_arch_list as get_arch_list
    from ..runtime.cuda.devices import get_device_capability as get_device_capability
    from ..runtime.cuda.devices import get_device_name as get_device_name
    from ..runtime.cuda.devices import get_device_properties as get_device_properties
    from ..runtime.cuda.devices import get_gencode_flags as get_gencode_flags
    from ..runtime.cuda.devices import init as init
    from ..runtime.cuda.devices import is_available as is_available
    from ..runtime.cuda.devices import is_bf16_supported as is_bf16_supported
    from ..runtime.cuda.devices import is_initialized as is_initialized
    from ..runtime.cuda.devices import is_tf32_supported as is_tf32_supported
    from ..runtime.cuda.devices import set_device as set_device
    from ..runtime.cuda.devices import synchronize as synchronize
    from ..runtime.cuda.event import Event as Event
    from ..runtime.cuda.graph import CUDAGraph as CUDAGraph
    from ..runtime.cuda.graph import graph as graph
    from ..runtime.cuda.graph import graph_pool_handle as graph_pool_handle
    from ..runtime.cuda.graph import is_current_stream_capturing as is_current_stream_capturing
    from ..runtime.cuda.memory.pinned import host_memory_stats as host_memory_stats
    from ..runtime.cuda.memory.pinned import (
        host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict,
    )
    from ..runtime.cuda.memory.pinned import (
        reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats,
    )
    from ..runtime.cuda.memory.pinned import reset_peak_host_memory_stats as reset_peak_host_memory_stats
    from ..runtime.cuda.sharing import ipc_collect as ipc_collect
    from ..runtime.cuda.stream import ExternalStream as ExternalStream
    from ..runtime.cuda.stream import Stream as Stream
    from ..runtime.cuda.stream import StreamContext as StreamContext
    from ..runtime.cuda.stream import current_stream as current_stream
    from ..runtime.cuda.stream import default_stream as default_stream
    from ..runtime.cuda.stream import get_stream_from_external as get_stream_from_external
    from ..runtime.cuda.stream import set_stream as set_stream
    from ..runtime.cuda.stream import stream as stream
    from ..runtime.cuda.sync_debug import get_sync_debug_mode as get_sync_debug_mode
    from ..runtime.cuda.sync_debug import set_sync_debug_mode as set_sync_debug_mode
    from . import amp as amp
    from . import graphs as graphs
    from . import memory as memory
    from . import nvtx as nvtx
    from . import profiler as profiler
    from . import random as random
    from . import streams as streams
    from .graphed_callables import make_graphed_callables as make_graphed_callables
    from .memory import *
    from .nvml import *
    from .precompilation import PrecompiledKernels as PrecompiledKernels
    from .precompilation import is_precompiling as is_precompiling
    from .precompilation import precompile as precompile
    from .random import default_generators as _default_generators
    from .random import get_rng_state as get_rng_state
    from .random import get_rng_state_all as get_rng_state_all
    from .random import initial_seed as initial_seed
    from .random import manual_seed as manual_seed
    from .random import manual_seed_all as manual_seed_all
    from .random import seed as seed
    from .random import seed_all as seed_all
    from .random import set_rng_state as set_rng_state
    from .random import set_rng_state_all as set_rng_state_all
    from .runtime_api import CudaError as CudaError
    from .runtime_api import DeferredCudaCallError as DeferredCudaCallError
    from .runtime_api import check_error as check_error
    from .runtime_api import cudart as cudart
    from .runtime_api import cudaStatus as cudaStatus
    from .tensor_types import BFloat16Tensor as BFloat16Tensor
    from .tensor_types import BoolTensor as BoolTensor
    from .tensor_types import ByteTensor as ByteTensor
    from .tensor_types import CharTensor as CharTensor
    from .tensor_types import DoubleTensor as DoubleTensor
    from .tensor_types import FloatTensor as FloatTensor
    from .tensor_types import HalfTensor as HalfTensor
    from .tensor_types import IntTensor as IntTensor
    from .tensor_types import LongTensor as LongTensor
    from .tensor_types import ShortTensor as ShortTensor

    default_generators = _default_generators()
else:
    _find, __dir__, __all__ = lazy_names(
        __name__, _MODULES, ("amp", "graphs", "memory", "nvtx", "profiler", "random", "streams")
    )
    __all__ += ["OutOfMemoryError", "has_half", "has_magma"]

    def _legacy_storage(name):
        from ..dispatch.methods.typed_storage import legacy_cuda

        try:
            return legacy_cuda[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None

    def __getattr__(name):
        # Both change with the first use of a device; programs read them before they save random states.
        if name == "_initialized":
            return _find("is_initialized")()
        if name == "default_generators":
            return _find("random").default_generators()
        if name.endswith("Storage"):
            return _legacy_storage(name)
        return _find(name)
