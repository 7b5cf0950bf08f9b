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
    found = [Strategy((Shard(dim),), (REPLICATE, Shard(dim))) for dim in range(indices)]
    found.append(Strategy((Shard(indices),), (Shard(1), REPLICATE)))
    # Rows that a process does not have are zeros in it.
    found.append(Strategy((_SUM,), (Shard(0), REPLICATE)))
    return found


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
    found = func(weight, (indices - begin).masked_fill_(elsewhere, 0), -1, False, False)
    return found.masked_fill_(elsewhere.unsqueeze(-1), 0)


def _embedding_gradient(call: Invocation) -> list[Strategy]:
    indices = call.tensors[1].ndim
    found = [Strategy((Shard(1),), (Shard(indices), REPLICATE))]
    if not call["scale_grad_by_freq"]:
        found += [Strategy((_SUM,), (Shard(dim), Shard(dim))) for dim in range(indices)]
    now = call.current(0)
    if isinstance(now, Partial) and now.is_partial("sum"):
        found.append(Strategy((now,), (now, REPLICATE)))
    return found


def _index_select(call: Invocation) -> list[Strategy]:
    ndim = call.tensors[0].ndim
    dim = call["dim"] % ndim if ndim else 0
    found = [Strategy((Shard(each),), (Shard(each), REPLICATE)) for each in range(ndim) if each != dim]
    if call.tensors[1].ndim == 1:
        found.append(Strategy((Shard(dim),), (REPLICATE, Shard(0))))
    return found


def _indices(call: Invocation) -> dict[int, Any]:
    """Return the indexed dimensions and their indices; none for bool masks, whose size depends on the
    elements.
    """
    given = {dim: each for dim, each in enumerate(call["indices"]) if each is not None}
    return {} if any(each.tensor_meta.dtype.itemsize == 1 for each in given.values()) else given


def _kept_dims(call: Invocation, given: dict[int, Any]) -> tuple[list[tuple[int, int]], int]:
    """Return the dimensions without an index with their positions in the result, and the position of the
    index dimensions.
    """
    width = max(each.ndim for each in given.values())
    first = min(given) if list(given) == list(range(min(given), max(given) + 1)) else 0
    kept = [dim for dim in range(call.tensors[0].ndim) if dim not in given]
    return [(dim, place + width * (place >= first)) for place, dim in enumerate(kept)], first


def _indexed(call: Invocation) -> list[Strategy]:
    """Along dimensions without an index, and along those of the index, if there is one."""
    given = _indices(call)
    if not given:
        return []
    kept, first = _kept_dims(call, given)
    rest = (REPLICATE,) * len(given)
    found = [Strategy((Shard(after),), (Shard(dim), *rest)) for dim, after in kept]
    if len(given) == 1:
        (index,) = given.values()
        found += [Strategy((Shard(first + dim),), (REPLICATE, Shard(dim))) for dim in range(index.ndim)]
    return found


def _put(call: Invocation) -> list[Strategy]:
    """Along dimensions without an index."""
    given = _indices(call)
    if not given:
        return []
    kept, _ = _kept_dims(call, given)
    rest = (REPLICATE,) * len(given)
    values = call["values"]
    missing = call.tensors[0].ndim - len(given) + max(each.ndim for each in given.values()) - values.ndim
    found = []
    for dim, after in kept:
        own = after - missing
        broadcast = own < 0 or values.shape[own] != call.tensors[0].shape[dim]
        found.append(Strategy((Shard(dim),), (Shard(dim), *rest, REPLICATE if broadcast else Shard(own))))
    return found


RULES = {
    "aten::embedding": Rule(_embedding, local=_look_up),
    "aten::embedding_dense_backward": Rule(_embedding_gradient),
    "aten::index_select": Rule(_index_select, plain=True),
    "aten::index.Tensor": Rule(_indexed, plain=True),
    "aten::index_put": Rule(_put, plain=True),
    "aten::index_put_": Rule(_put, plain=True),
}
"""The rules of the family."""
