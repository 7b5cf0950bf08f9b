"""Communication counts and shard layouts of distributed tensors (`torch.distributed.tensor.debug`)."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

from .dtensor import DTensor
from .placements import Shard
from .transitions import counters

__all__ = ["CommDebugMode", "visualize_sharding"]


class CommDebugMode:
    """A context that counts the communications of distributed tensors (`torch.distributed.tensor.debug.CommDebugMode`).

    Communications that a program begins itself are not counted.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.backends.fake import FakeStore
        >>> from triten.distributed.tensor import Shard, rand
        >>> from triten.distributed.tensor.debug import CommDebugMode
        >>> dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        >>> x = rand(8, 8, device_mesh=dist.init_device_mesh("cpu", (4,)), placements=[Shard(0)])
        >>> with CommDebugMode() as mode:
        ...     y = (x @ x).sum().full_tensor()
        >>> mode.get_comm_counts()
        {'all_to_all_single': 1, 'all_reduce': 1}
        >>> dist.destroy_process_group()
    """

    def __init__(self) -> None:
        self.comm_counts: Counter[str] = Counter()

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        counters.append(self.comm_counts)
        return self

    def __exit__(self, *error: object) -> None:
        # By identity: a counter equals others of the same counts.
        del counters[next(index for index, each in enumerate(counters) if each is self.comm_counts)]

    def get_total_counts(self) -> int:
        """Return the total number of collectives."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[str, int]:
        """Return the number of calls of each collective, by its name in `tt.distributed`."""
        return dict(self.comm_counts)

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"


def visualize_sharding(dtensor: DTensor, header: str = "", use_rich: bool = False) -> None:
    """Print which processes have which part of a tensor (`torch.distributed.tensor.debug.visualize_sharding`).

    Nothing is printed but in the first process of the mesh.

    Args:
        dtensor: a tensor of one or two dimensions.
        header: printed above.
        use_rich: Ignored; accepted for compatibility with PyTorch.

    Raises:
        RuntimeError: the tensor has another number of dimensions.

    Example:
        >>> from triten import distributed as dist
        >>> from triten.distributed.backends.fake import FakeStore
        >>> from triten.distributed.tensor import Replicate, Shard, zeros
        >>> from triten.distributed.tensor.debug import visualize_sharding
        >>> dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        >>> mesh = dist.init_device_mesh("cpu", (2, 2))
        >>> visualize_sharding(zeros(4, 6, device_mesh=mesh, placements=[Shard(0), Shard(1)]))
                Col 0-2  Col 3-5
        Row 0-1  cpu:0    cpu:1
        Row 2-3  cpu:2    cpu:3
        >>> visualize_sharding(zeros(4, device_mesh=mesh, placements=[Shard(0), Replicate()]))
         Col 0-1    Col 2-3
        cpu:0, 1   cpu:2, 3
        >>> dist.destroy_process_group()
    """
    if dtensor.ndim not in (1, 2):
        raise RuntimeError(f"visualize_sharding: expected 1 or 2 dimensions, but got {dtensor.ndim}")
    if not dtensor.numel():
        return
    mesh = dtensor.device_mesh
    if mesh.get_coordinate() is None or any(mesh.get_coordinate() or ()):
        return
    owners: dict[tuple[tuple[int, int], ...], list[int]] = {}
    ranks = mesh.mesh.view(-1).tolist()
    for rank, coordinate in zip(ranks, product(*map(range, mesh.shape)), strict=True):
        begins, sizes = [0] * dtensor.ndim, list(dtensor.shape)
        for mesh_dim, placement in enumerate(dtensor.placements):
            if isinstance(placement, Shard):
                dim = placement.dim
                sizes[dim], begin = Shard.local_shard_size_and_offset(
                    sizes[dim], mesh.size(mesh_dim), coordinate[mesh_dim]
                )
                begins[dim] += begin
        if all(sizes):
            part = tuple((begin, begin + size - 1) for begin, size in zip(begins, sizes, strict=True))
            owners.setdefault(part, []).append(rank)
    if header:
        print(header)
    print(_table(owners, mesh.device_type, dtensor.ndim))


def _table(owners: dict[tuple[tuple[int, int], ...], list[int]], kind: str, ndim: int) -> str:
    columns = sorted({part[-1] for part in owners})
    rows = sorted({part[:-1] for part in owners})
    lines: list[list[str]] = [[*[""] * (ndim - 1), *[f"Col {first}-{last}" for first, last in columns]]]
    for row in rows:
        cells: list[Any] = [f"Row {first}-{last}" for first, last in row]
        for column in columns:
            ranks = owners.get((*row, column), [])
            cells.append(f"{kind}:{', '.join(map(str, ranks))}" if ranks else "")
        lines.append(cells)
    widths = [max(len(line[column_index]) for line in lines) for column_index in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.center(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
