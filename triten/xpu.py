"""Intel's GPUs (`torch.xpu`), of which triten can use none: what programs ask is answered as without one."""

from collections import OrderedDict
from types import ModuleType
from typing import Any

from .runtime.absent_device import absent_device

default_generators: tuple[()] = ()


def _error(name: str) -> Exception:
    return AssertionError(f"xpu.{name}: triten has no kernels for Intel's GPUs, which 'xpu' stands for")


globals().update(
    absent_device(
        __name__,
        _error,
        {
            **dict.fromkeys(
                ("is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported"), False
            ),
            **dict.fromkeys(
                ["device_count", "memory_allocated", "memory_reserved", "max_memory_allocated"], 0
            ),
            **dict.fromkeys(
                ["empty_cache", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"]
            ),
            **dict.fromkeys(["set_rng_state_all", "set_stream"]),
            "max_memory_reserved": 0,
            "get_arch_list": list,
            "get_gencode_flags": "",
            "get_rng_state_all": list,
            "memory_snapshot": list,
            "memory_stats": OrderedDict,
            "memory_stats_as_nested_dict": dict,
        },
        "can_device_access_peer change_current_allocator clock_rate current_device current_stream device_memory_used "
        "get_device_capability get_device_name get_device_properties get_per_process_memory_fraction get_rng_state "
        "get_stream_from_external graph_pool_handle init initial_seed is_current_stream_capturing "
        "make_graphed_callables mem_get_info memory_usage power_draw reset_accumulated_memory_stats "
        "reset_peak_memory_stats set_device set_per_process_memory_fraction stream synchronize temperature "
        "use_mem_pool utilization",
        "Event MemPool Stream StreamContext XPUGraph XPUPluggableAllocator device device_of graph",
    )
)

streams = ModuleType(
    f"{__name__}.streams", "Streams and events of Intel's GPUs (`torch.xpu.streams`): there are none."
)
vars(streams).update({name: globals()[name] for name in ("Event", "Stream")}, __all__=["Event", "Stream"])
globals()["__all__"].append("streams")


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
