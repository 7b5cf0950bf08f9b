"""What is done to parameters and sequences beside layers (`torch.nn.utils`).

Gradients are clipped in `clipping`, parameters made one vector in `vectors`, sequences packed in `rnn`. A name's
module is imported with its first use.
"""

from __future__ import annotations

from ..._lazy_names import lazy_names

_SUBMODULES = {"rnn": "rnn"}
_PLACES = {
    "clip_grad_norm_": "clipping",
    "clip_grad_value_": "clipping",
    "clip_grads_with_norm_": "clipping",
    "get_total_norm": "clipping",
    "parameters_to_vector": "vectors",
    "vector_to_parameters": "vectors",
}

__all__ = sorted([*_SUBMODULES, *_PLACES])

__getattr__, __dir__ = lazy_names(__name__, __name__, _PLACES, _SUBMODULES)
