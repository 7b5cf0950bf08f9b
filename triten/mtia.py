"""Meta's accelerators (`torch.mtia`), of which triten can use none: answers are those of a machine without one."""

from typing import Any

from .runtime.absent_device import absent_device


def _error(name: str) -> Exception:
    return RuntimeError(
        f"mtia.{name}: triten has no kernels for Meta's accelerators, which 'mtia' stands for"
    )


globals().update(
    absent_device(
        __name__,
        _error,
        {
            **dict.fromkeys(["is_available", "is_initialized"], False),
            **dict.fromkeys(["device_count", "max_memory_allocated", "memory_allocated"], 0),
            **dict.fromkeys(["manual_seed", "manual_seed_all", "seed", "seed_all"]),
            "get_rng_state_all": list,
            "memory_stats": dict,
        },
        "attach_out_of_memory_observer current_device current_stream default_stream empty_cache "
        "get_device_capability get_device_properties get_rng_state graph_pool_handle init initial_seed "
        "record_memory_history reset_peak_memory_stats set_device set_rng_state set_rng_state_all set_stream "
        "snapshot synchronize",
        "MTIAGraph device graph stream",
    )
)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
