"""What is done to parameters and sequences beside layers (`torch.nn.utils`).

Gradients are clipped in `clipping`, parameters made one vector in `vectors`, sequences packed in `rnn`. A name's
module is imported with its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SUBMODULES = ("rnn",)
_PLACES = {
    "clip_grad_norm_": "clipping",
    "clip_grad_value_": "clipping",
    "clip_grads_with_norm_": "clipping",
    "get_total_norm": "clipping",
    "parameters_to_vector": "vectors",
    "vector_to_parameters": "vectors",
}

__all__ = sorted([*_SUBMODULES, *_PLACES])


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __package__)
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{place}", __package__), name)
    return found


def __dir__() -> list[str]:
    return __all__
