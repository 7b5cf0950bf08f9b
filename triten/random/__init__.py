"""`tt.random`: seeds and states of the random streams (`torch.random`)."""

from ..dispatch.random import (
    default_generator,
    fork_rng,
    get_cpu_engine,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_cpu_engine,
    set_rng_state,
    thread_safe_generator,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_cpu_engine",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_cpu_engine",
    "set_rng_state",
    "thread_safe_generator",
]
