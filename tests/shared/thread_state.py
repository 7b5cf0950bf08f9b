"""A thread's modes, keys and settings, which a test must leave unchanged."""

from typing import Any

import numpy as np

import triten as tt
from triten.dispatch.custom_ops import fake_context
from triten.dispatch.layers import python_key, trace
from triten.dispatch.structured.stub import recorders
from triten.runtime import grad_mode, parallel
from triten.runtime.local_dispatch_key_set import local, modes


def modes_and_keys() -> tuple[list[Any], int, int]:
    """Return the thread's modes, and its included and excluded keys."""
    return list(modes), local.included, local.excluded


def thread_state() -> dict[str, Any]:
    """Return all state that the package keeps for a thread, and the flags in front of it."""
    from triten.dispatch.core.operator_entry import observers
    from triten.dispatch.layers.profiler import session as profile_session
    from triten.runtime.cuda.driver import driver

    cuda = driver()
    return {
        "keys": (local.included, local.excluded),
        "modes": list(modes),
        "grad": (grad_mode.is_grad_enabled(), list(grad_mode.grad_disabled)),
        "inference": (grad_mode.is_inference_mode_enabled(), list(grad_mode.inference_enabled)),
        "dispatch modes": list(python_key._stack.modes),
        "hops": (list(trace._hops.operators), list(trace._hops.files)),
        "fake": list(fake_context._running.names),
        "parallel": (parallel._region.is_inside, parallel._region.thread_num),
        "device": (cuda.current_device(), dict(cuda._thread.streams)),
        "observers": (list(observers), list(recorders), profile_session.active()),
        "defaults": (tt.get_default_dtype(), tt.get_default_device()),
        "autocast": (
            tt.is_autocast_enabled("cpu"),
            tt.is_autocast_enabled("cuda"),
            tt.is_autocast_cache_enabled(),
        ),
        "numpy": np.geterr(),
    }
