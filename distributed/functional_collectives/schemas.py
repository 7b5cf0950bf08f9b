"""The schemas of collectives as operators (torch/csrc/distributed/c10d/Functional.cpp)."""

from __future__ import annotations

_GATHER = "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor"
_SCATTER = "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor"
_EXCHANGE = (
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) "
    "-> Tensor"
)

SCHEMAS = {
    "_c10d_functional": (
        "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
        "all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)",
        "all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]",
        "all_reduce_coalesced_(Tensor(a!)[] inputs, str reduce_op, str group_name) -> Tensor(a!)[]",
        _GATHER,
        "all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)",
        "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
        _SCATTER,
        (
            "reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str group_name, *, "
            "Tensor(a!) out) -> Tensor(a!)"
        ),
        (
            "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) "
            "-> Tensor[]"
        ),
        _EXCHANGE,
        "broadcast(Tensor input, int src, str group_name) -> Tensor",
        "broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)",
        "wait_tensor(Tensor tensor) -> Tensor",
        "_wrap_tensor_autograd(Tensor input) -> Tensor",
    ),
    "_c10d_functional_autograd": (_GATHER, _SCATTER, _EXCHANGE),
}
"""By namespace."""

_RANKS = "str tag, int[] ranks, int group_size"

LEGACY_SCHEMAS = (
    f"broadcast(Tensor self, int src, {_RANKS}) -> Tensor",
    f"all_reduce(Tensor self, str reduceOp, {_RANKS}) -> Tensor",
    f"all_reduce_coalesced(Tensor[] self, str reduceOp, {_RANKS}) -> Tensor[]",
    "wait_tensor(Tensor self) -> Tensor",
    f"all_gather_into_tensor(Tensor shard, {_RANKS}) -> Tensor",
    f"all_gather_into_tensor_coalesced(Tensor[] input, {_RANKS}) -> Tensor[]",
    f"reduce_scatter_tensor(Tensor input, str reduceOp, {_RANKS}) -> Tensor",
    f"reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduceOp, {_RANKS}) -> Tensor[]",
    (
        "all_to_all_single(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, "
        f"{_RANKS}) -> Tensor"
    ),
)
"""Schemas of the older namespace `c10d_functional`, whose operators identify a group by its ranks."""

CLASSES = "__torch__.torch.classes.c10d"

SCATTER_SCHEMA = (
    f"c10d::scatter_(Tensor[] output_tensors, Any input_tensors, {CLASSES}.ProcessGroup process_group, "
    f"int root_rank, bool async_op=True, int timeout=-1) -> (Tensor[], {CLASSES}.Work)"
)
"""The operator of `distributed.scatter`; the list of lists of tensors is `Any`, for which schemas here have no type."""
