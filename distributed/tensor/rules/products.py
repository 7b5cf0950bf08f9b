"""Matmuls, convolutions and attention."""

from __future__ import annotations

from ..placements import REPLICATE, Partial, Placement, Shard
from .einsum import einsum, lettered
from .pointwise import shards_of_broadcast
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES"]


def _added(equation: str) -> Rule:
    """Return the rule of a matmul that is added to a tensor of its shape, or to one that broadcasts to it."""
    product = einsum(equation)

    def strategies(call: Invocation) -> list[Strategy]:
        shape = call.results[0].shape
        added = shards_of_broadcast(shape, [call.tensors[0].shape])
        made = []
        for strategy in product(_without_first(call)):
            (output,) = strategy.outputs
            first: Placement
            if isinstance(output, Shard):
                (first,) = added[output.dim]
            elif isinstance(output, Partial):
                if output.is_partial("avg"):
                    continue
                first = output
            else:
                first = REPLICATE
            made.append(Strategy(strategy.outputs, (first, *strategy.inputs)))
        return made

    return Rule(strategies)


def _without_first(call: Invocation) -> Invocation:
    made = Invocation(call.name, call.values, call.tensors[1:], call.results)
    made.mesh_dim, made.count = call.mesh_dim, call.count
    return made


def _convolution(call: Invocation) -> list[Strategy]:
    """Along the batch, along the channels that come out, and along those that go in."""
    inputs, outputs = ["ni", "oi"], ["no"]
    if len(call.tensors) == 3:
        inputs.append("o")
    grouped = call.get("groups", 1) != 1 or call.get("transposed", False)
    return lettered(call, inputs, outputs, whole="io" if grouped else "i")


def _convolution_input(call: Invocation) -> list[Strategy]:
    return lettered(call, ["no", "oi"], ["ni"], whole="io" if call["groups"] != 1 else "")


def _convolution_weight(call: Invocation) -> list[Strategy]:
    return lettered(call, ["no", "ni"], ["oi"], whole="io" if call["groups"] != 1 else "")


def _attention(call: Invocation) -> list[Strategy]:
    """Return the strategies of attention: shard the batch or the heads."""
    if call.get("dropout_p", 0.0):
        return []
    mask = call.get("attn_mask") or call.get("attn_bias")
    if mask is not None and (call.get("grad_input_mask") or (False,))[-1]:
        return []  # the mask's gradient is a sum over what it was broadcast to
    heads = [index for index, each in enumerate(call.tensors) if each.ndim >= 3 and each is not mask]
    strategies = []
    for dim in (0, 1):
        if dim == 1 and not all(call.is_even(index, 1) for index in heads):
            continue
        shards: list[Placement] = [
            Shard(dim) if index in heads else REPLICATE for index in range(len(call.tensors))
        ]
        if mask is not None:  # broadcast to (batch, heads, queries, keys)
            own = dim - (4 - mask.ndim)
            if own >= 0 and mask.shape[own] != 1:
                shards[call.index(mask)] = Shard(own)
        results = tuple(Shard(dim) if len(each.shape) >= 3 else REPLICATE for each in call.results)
        strategies.append(Strategy(results, tuple(shards)))
    return strategies


_ATTENTION = (
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
)
RULES = {
    "aten::mm": Rule(einsum("mk,kn->mn")),
    "aten::bmm": Rule(einsum("bmk,bkn->bmn")),
    "aten::mv": Rule(einsum("mk,k->m")),
    "aten::dot": Rule(einsum("k,k->")),
    "aten::outer": Rule(einsum("m,n->mn")),
    "aten::addmm": _added("mk,kn->mn"),
    "aten::baddbmm": _added("bmk,bkn->bmn"),
    "aten::convolution": Rule(_convolution),
    "aten::convolution_backward_input": Rule(_convolution_input, sizes="input_size"),
    "aten::convolution_backward_weight": Rule(_convolution_weight, sizes="weight_size"),
    **{f"aten::{name}": Rule(_attention, by_value=True) for name in _ATTENTION},
}
"""The rules of the family."""
