"""Softmax and norms: parts along dimensions that are not normalised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_lowercase
from typing import Any

from ..placements import Shard
from .einsum import lettered
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES", "along_others", "masked_results"]


def along_others(call: Invocation) -> list[Strategy]:
    """Parts of all tensors along dimensions other than `dim` in which their sizes agree."""
    ndim = call.tensors[0].ndim
    whole = call["dim"] % ndim if ndim else 0
    return [
        Strategy((Shard(dim),) * len(call.results), (Shard(dim),) * len(call.tensors))
        for dim in range(ndim)
        if dim != whole
        and all(each.ndim == ndim and each.shape[dim] == call.tensors[0].shape[dim] for each in call.tensors)
    ]


def masked_results(call: Invocation, letters: Sequence[str]) -> list[str]:
    """Return the letters of the requested gradients."""
    requested = [
        each for each, is_requested in zip(letters, call["output_mask"], strict=True) if is_requested
    ]
    return requested if len(requested) == len(call.results) else list(letters)


def _letters(call: Invocation) -> tuple[str, str]:
    """Return a letter for each batch dimension, and for each normalized dimension."""
    ndim = call.tensors[0].ndim
    normalized = len(call["normalized_shape"])
    letters = ascii_lowercase[:ndim]
    return letters[: ndim - normalized], letters[ndim - normalized :]


def _layer_norm(call: Invocation) -> list[Strategy]:
    batch, rest = _letters(call)
    inputs = [batch + rest, *[rest] * (len(call.tensors) - 1)]
    outputs = [batch + rest, *[batch] * (len(call.results) - 1)]
    return lettered(call, inputs, outputs, whole=rest)


def _gradient_of(statistics: int) -> Callable[[Invocation], list[Strategy]]:
    """Return the gradient strategies of a normalization that saves `statistics` statistics per row."""

    def strategies(call: Invocation) -> list[Strategy]:
        ndim = call.tensors[1].ndim
        normalized = len(call["normalized_shape"])
        letters = ascii_lowercase[:ndim]
        batch, rest = letters[: ndim - normalized], letters[ndim - normalized :]
        inputs = [letters, letters, *[batch] * statistics]
        inputs += [rest] * (len(call.tensors) - len(inputs))
        outputs = masked_results(call, [letters, rest, rest][: len(call["output_mask"])])
        return lettered(call, inputs, outputs, whole=rest)

    return strategies


def _group_norm(call: Invocation) -> list[Strategy]:
    return lettered(call, ["n", *[""] * (len(call.tensors) - 1)], ["n"] * len(call.results))


def _group_norm_gradient(call: Invocation) -> list[Strategy]:
    inputs = ["n", "n", "n", "n", *[""] * (len(call.tensors) - 4)]
    return lettered(call, inputs, masked_results(call, ["n", "", ""]))


def _of_batch(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    """Pass the local number of examples to the operator."""
    arguments = func._entry.schema.arguments
    values["N"] = values["input"].shape[0]
    return func(*[values[each.name] for each in arguments])


RULES = {
    "aten::_softmax": Rule(along_others),
    "aten::_log_softmax": Rule(along_others),
    "aten::_softmax_backward_data": Rule(along_others),
    "aten::_log_softmax_backward_data": Rule(along_others),
    "aten::native_layer_norm": Rule(_layer_norm),
    "aten::native_layer_norm_backward": Rule(_gradient_of(2)),
    "aten::_fused_rms_norm": Rule(_layer_norm),
    "aten::_fused_rms_norm_backward": Rule(_gradient_of(1)),
    "aten::native_group_norm": Rule(_group_norm, local=_of_batch),
    "aten::native_group_norm_backward": Rule(_group_norm_gradient, local=_of_batch),
    "aten::cumsum": Rule(along_others),
    "aten::cumprod": Rule(along_others),
    "aten::sort": Rule(along_others),
    "aten::sort.stable": Rule(along_others),
    "aten::topk": Rule(along_others),
    "aten::gather": Rule(along_others),
    "aten::scatter.src": Rule(along_others),
    "aten::scatter_add": Rule(along_others),
}
"""The rules of the family."""
