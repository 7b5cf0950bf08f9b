"""Rules of embeddings and indexing, with the table replicated, sharded by columns, or sharded by rows."""

from __future__ import annotations

from typing import Any

from ..placements import REPLICATE, Partial, Shard
from ..shards import compute_local_shape_and_global_offset
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES"]

_SUM = Partial("sum")


def _embedding(call: Invocation) -> list[Strategy]:
    indices = call.tensors[1].ndim
    strategies = [Strategy((Shard(dim),), (REPLICATE, Shard(dim))) for dim in range(indices)]
    strategies.append(Strategy((Shard(indices),), (Shard(1), REPLICATE)))
    # A rank looks up rows of other ranks as zeros.
    strategies.append(Strategy((_SUM,), (Shard(0), REPLICATE)))
    return strategies


def _look_up(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    weight, indices = values["weight"], values["indices"]
    rest = values["padding_idx"], values["scale_grad_by_freq"], values["sparse"]
    if not any(each.is_shard(0) for each in targets[0].placements):
        return func(weight, indices, *rest)
    _, (begin, _) = compute_local_shape_and_global_offset(
        targets[0].shape, targets[0].mesh, targets[0].placements
    )
    rows = weight.shape[0]
    elsewhere = (indices < begin) | (indices >= begin + rows)
    if not rows:
        return weight.new_zeros((*indices.shape, weight.shape[1]))
    output = func(weight, (indices - begin).masked_fill_(elsewhere, 0), -1, False, False)
    return output.masked_fill_(elsewhere.unsqueeze(-1), 0)


def _embedding_gradient(call: Invocation) -> list[Strategy]:
    indices = call.tensors[1].ndim
    strategies = [Strategy((Shard(1),), (Shard(indices), REPLICATE))]
    if not call["scale_grad_by_freq"]:
        strategies += [Strategy((_SUM,), (Shard(dim), Shard(dim))) for dim in range(indices)]
    now = call.current(0)
    if isinstance(now, Partial) and now.is_partial("sum"):
        strategies.append(Strategy((now,), (now, REPLICATE)))
    return strategies


def _index_select(call: Invocation) -> list[Strategy]:
    ndim = call.tensors[0].ndim
    dim = call["dim"] % ndim if ndim else 0
    strategies = [Strategy((Shard(each),), (Shard(each), REPLICATE)) for each in range(ndim) if each != dim]
    if call.tensors[1].ndim == 1:
        strategies.append(Strategy((Shard(dim),), (REPLICATE, Shard(0))))
    return strategies


def _indices(call: Invocation) -> dict[int, Any]:
    """Return the indexed dimensions and their indices; none for bool masks, whose size depends on the
    elements.
    """
    index_of_dim = {dim: each for dim, each in enumerate(call["indices"]) if each is not None}
    return {} if any(each.tensor_meta.dtype.itemsize == 1 for each in index_of_dim.values()) else index_of_dim


def _kept_dims(call: Invocation, index_of_dim: dict[int, Any]) -> tuple[list[tuple[int, int]], int]:
    """Return the dimensions without an index with their positions in the result, and the position of the
    index dimensions.
    """
    width = max(each.ndim for each in index_of_dim.values())
    first = (
        min(index_of_dim)
        if list(index_of_dim) == list(range(min(index_of_dim), max(index_of_dim) + 1))
        else 0
    )
    unindexed = [dim for dim in range(call.tensors[0].ndim) if dim not in index_of_dim]
    return [(dim, position + width * (position >= first)) for position, dim in enumerate(unindexed)], first


def _indexed(call: Invocation) -> list[Strategy]:
    """Shard dimensions without an index, or the dimensions of a single index."""
    index_of_dim = _indices(call)
    if not index_of_dim:
        return []
    unindexed, first = _kept_dims(call, index_of_dim)
    rest = (REPLICATE,) * len(index_of_dim)
    strategies = [Strategy((Shard(after),), (Shard(dim), *rest)) for dim, after in unindexed]
    if len(index_of_dim) == 1:
        (index,) = index_of_dim.values()
        strategies += [Strategy((Shard(first + dim),), (REPLICATE, Shard(dim))) for dim in range(index.ndim)]
    return strategies


def _put(call: Invocation) -> list[Strategy]:
    """Shard dimensions without an index."""
    index_of_dim = _indices(call)
    if not index_of_dim:
        return []
    unindexed, _ = _kept_dims(call, index_of_dim)
    rest = (REPLICATE,) * len(index_of_dim)
    values = call["values"]
    missing = (
        call.tensors[0].ndim
        - len(index_of_dim)
        + max(each.ndim for each in index_of_dim.values())
        - values.ndim
    )
    strategies = []
    for dim, after in unindexed:
        own = after - missing
        broadcast = own < 0 or values.shape[own] != call.tensors[0].shape[dim]
        strategies.append(
            Strategy((Shard(dim),), (Shard(dim), *rest, REPLICATE if broadcast else Shard(own)))
        )
    return strategies


RULES = {
    "aten::embedding": Rule(_embedding, local=_look_up),
    "aten::embedding_dense_backward": Rule(_embedding_gradient),
    "aten::index_select": Rule(_index_select, plain=True),
    "aten::index.Tensor": Rule(_indexed, plain=True),
    "aten::index_put": Rule(_put, plain=True),
    "aten::index_put_": Rule(_put, plain=True),
}
"""The rules of the family."""
