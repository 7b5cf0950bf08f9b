"""Products of matrices, convolutions and attention."""

from __future__ import annotations

from ..placements import REPLICATE, Partial, Placement, Shard
from .einsum import einsum, lettered
from .pointwise import shards_of_broadcast
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES"]


def _added(equation: str) -> Rule:
    """A product that is added to a tensor of its shape, or one that is broadcast to it."""
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
    made.place, made.count = call.place, call.count
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
    """Along the batch, and along the heads."""
    heads = call.tensors[0].shape[1]
    equal = all(each.ndim < 2 or each.shape[1] == heads for each in call.tensors)
    found = []
    for dim in (0, 1):
        if dim == 1 and (not equal or not call.is_even(0, 1)):
            continue
        shards = []
        for each in call.tensors:
            broadcast = each.ndim <= dim or each.shape[dim] != call.tensors[0].shape[dim]
            shards.append(REPLICATE if broadcast else Shard(dim))
        results = tuple(Shard(dim) if len(each.shape) > dim else REPLICATE for each in call.results)
        found.append(Strategy(results, tuple(shards)))
    dropout = call.get("dropout_p", 0.0)
    return [] if dropout else found


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
    "aten::_scaled_dot_product_flash_attention_for_cpu": Rule(_attention, by_value=True),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": Rule(_attention, by_value=True),
    "aten::_scaled_dot_product_attention_math": Rule(_attention, by_value=True),
}
"""The rules of the family."""
