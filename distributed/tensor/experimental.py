"""Functions of parts, and tensors beside distributed ones (`torch.distributed.tensor.experimental`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.layers import pytree
from ...dispatch.layers.python_key import split_arguments
from ...dispatch.tensor import Tensor
from ..mesh import DeviceMesh
from .dispatch import forget_decisions, implicit_replication
from .dtensor import DTensor
from .placements import Placement
from .rules.rule import Invocation, Rule, Strategy
from .rules.table import RULES
from .spec import DTensorSpec

__all__ = ["implicit_replication", "local_map", "register_sharding"]

Function = TypeVar("Function", bound=Callable[..., Any])

Placements = Sequence[Placement] | None
"""Placements of one tensor; None for a value that is not a tensor."""


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Placements | tuple[Placements, ...] = None,
    in_placements: Sequence[Placements] | None = None,
    in_grad_placements: Sequence[Placements] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Call a function on the parts of distributed tensors (`torch.distributed.tensor.experimental.local_map`).

    Args:
        func: takes and gives plain tensors; a decorator is made if nothing is said.
        out_placements: Placements of the result as a list; for several results, a tuple of lists.
        in_placements: Required placements of each argument. None accepts any, and stands for values that are
            not DTensors.
        in_grad_placements: Placements of the parts' gradients, if different from the arguments'.
        device_mesh: Mesh of the results. Default: that of the first distributed argument.
        redistribute_inputs: If True, redistribute arguments with other placements.

    Raises:
        ValueError: an argument lies otherwise than `in_placements` says.
        AssertionError: there are not as many placements as arguments or results.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor import Shard, ones
        >>> from triten.distributed.tensor.experimental import local_map
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> double = local_map(lambda part: 2 * part, out_placements=[Shard(0)])
        >>> double(ones(2, device_mesh=dist.init_device_mesh("cpu", (1,)))).to_local()
        tensor([2., 2.])
        >>> dist.destroy_process_group()
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )
    function = func

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, structure = pytree.tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!"
            )
        mesh = device_mesh
        parts = []
        for index, argument in enumerate(flat):
            if isinstance(argument, DTensor):
                mesh = mesh or argument.device_mesh
                required = None if in_placements is None else in_placements[index]
                grads = None if in_grad_placements is None else in_grad_placements[index]
                parts.append(_part(argument, required, grads, redistribute_inputs))
            else:
                parts.append(argument)
        output = function(*pytree.tree_unflatten(parts, structure), **kwargs)
        if not any(isinstance(each, DTensor) for each in flat):
            return output
        results, made = pytree.tree_flatten(output)
        several: Any = out_placements if isinstance(out_placements, tuple) else (out_placements,)
        if len(several) != len(results):
            raise AssertionError(
                f"local_map requires one PlacementType be provided for each output value, received {len(several)} "
                f"out_placements but {len(results)} is expected!"
            )
        placed = [_placed(each, mesh, required) for each, required in zip(results, several, strict=True)]
        return pytree.tree_unflatten(placed, made)

    return mapped


def _part(argument: DTensor, required: Placements, grads: Placements, redistributes: bool) -> Tensor:
    if required is not None and argument.placements != tuple(required):
        if not redistributes:
            raise ValueError(
                f"arg {argument} in local_map has a mismatched placements: arg placements is {argument.placements} but "
                f"the input placements is {tuple(required)}! If redistribute_inputs is wanted, set "
                "redistribute_inputs=True to local_map."
            )
        argument = argument.redistribute(placements=required)
    return argument.to_local(grad_placements=grads)


def _placed(result: Any, mesh: DeviceMesh | None, placements: Placements) -> Any:
    if isinstance(result, Tensor):
        if isinstance(result, DTensor):
            raise AssertionError(f"local_map: expected a plain tensor as output, but got {result}")
        return DTensor.from_local(result, mesh, placements)
    if placements is not None:
        raise AssertionError(f"Non-tensor output {result} expects None placements but received {placements}!")
    return result


def register_sharding(op: OpOverload | Sequence[OpOverload]) -> Callable[[Function], Function]:
    """Return a decorator that registers how an operator computes on shards of its tensors.

    The function gets the operator's arguments, with a `DTensorSpec` instead of each tensor. It returns a list
    of pairs: a placement for each result, and for each argument a placement, or None if that is no tensor.
    Each pair is one way to compute the operator along a mesh dimension. The dispatcher takes the one with the
    least communication.

    Args:
        op: The operator, or several.

    Source: torch.distributed.tensor.experimental.register_sharding.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor import Replicate, Shard, distribute_tensor
        >>> from triten.distributed.tensor.experimental import register_sharding
        >>> @tt.library.custom_op("shapes::twice", mutates_args=())
        ... def twice(x: tt.Tensor) -> tt.Tensor:
        ...     return x * 2
        >>> _ = twice.register_fake(tt.empty_like)
        >>> @register_sharding(tt.ops.shapes.twice.default)
        ... def sharding(x):
        ...     return [([Shard(0)], [Shard(0)]), ([Replicate()], [Replicate()])]
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> twice(distribute_tensor(tt.ones(2), mesh, [Shard(0)])).placements
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """

    def register(function: Function) -> Function:
        for each in [op] if isinstance(op, OpOverload) else op:
            RULES[each.name()] = Rule(functools.partial(_registered, function, each), by_value=True)
        forget_decisions()
        return function

    return register


def _registered(function: Callable[..., Any], op: OpOverload, call: Invocation) -> list[Strategy]:
    """Return the strategies that a registered function lists for a call."""
    args, kwargs = split_arguments(op._entry, list(call.values.values()))
    leaves = pytree.tree_leaves((args, kwargs))
    return [
        Strategy(
            tuple(outputs),
            tuple(
                placement
                for placement, leaf in zip(inputs, leaves, strict=False)
                if isinstance(leaf, DTensorSpec)
            ),
        )
        for outputs, inputs in function(*args, **kwargs)
    ]
