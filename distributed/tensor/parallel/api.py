"""`parallelize_module`: a plan, applied to a module."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from ...mesh import DeviceMesh, current_mesh
from .style import ParallelStyle

if TYPE_CHECKING:
    from ....nn import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Divide a module among the processes of a mesh (`torch.distributed.tensor.parallel.parallelize_module`).

    Args:
        module: the module, which is changed.
        device_mesh: a mesh of one dimension, such as ``mesh["tp"]``; the current mesh if nothing is said.
        parallelize_plan: a style for the module, or styles for submodules by their names, in which each part may be a
            pattern: ``"layers.*.attention"``. The name ``""`` is the module's own.
        src_data_rank: whose parameters are divided, as a number in the mesh; None for each process's own, which must
            all be the same, and are not sent.

    Returns:
        The module.

    Raises:
        TypeError: the plan is something else.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> mlp = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Linear(8, 4))
        >>> x = tt.randn(2, 4)
        >>> expected = mlp(x)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        >>> tt.equal(parallelize_module(mlp, mesh, plan)(x), expected)
        True
        >>> mlp[0].weight.placements, mlp[2].weight.placements
        ((Shard(dim=0),), (Shard(dim=1),))
        >>> dist.destroy_process_group()
    """
    mesh = device_mesh or current_mesh()
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
            "parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        token, _, rest = path.partition(".")
        if not path:
            parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
            continue
        matched = [child for name, child in module.named_children() if fnmatch(name, token)]
        if not matched:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{token}' in module "
                f"{module}, skipping this plan entry.",
                stacklevel=2,
            )
        for child in matched:
            parallelize_module(child, mesh, {rest: style} if rest else style, src_data_rank=src_data_rank)
    return module
