"""How a module is divided among processes: by columns, by rows, or along the sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ....dispatch.tensor import Tensor
from ...mesh import DeviceMesh
from ..distribute import distribute_module, distribute_tensor
from ..dtensor import DTensor
from ..placements import REPLICATE, Placement, Shard

if TYPE_CHECKING:
    from ....nn import Module

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "RowwiseParallel",
    "SequenceParallel",
    "as_distributed",
]

Placements = tuple[Placement, ...]


class ParallelStyle(ABC):
    """Parallelization style that `parallelize_module` applies to a module
    (`torch.distributed.tensor.parallel.ParallelStyle`).

    Attributes:
        src_data_rank: Rank whose parameters are distributed. None uses each rank's own.
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Change a module. Returns it."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name in self._SAID)
        return f"{type(self).__name__}({options})"

    _SAID: tuple[str, ...] = ()


def as_distributed(
    value: Tensor, mesh: DeviceMesh, layouts: Sequence[Placement], desired: Sequence[Placement] | None
) -> DTensor:
    """Return a DTensor with the wanted placements. A plain tensor is this rank's part of one placed by
    `layouts`.
    """
    made = value if isinstance(value, DTensor) else DTensor.from_local(value, mesh, layouts)
    return made if desired is None else made.redistribute(placements=desired)


def _divide(module: Module, name: str, mesh: DeviceMesh, placement: Placement, source: int | None) -> None:
    """Divide one parameter of a module, if it has that."""
    from ....nn import Parameter

    parameter = module._parameters.get(name)
    if parameter is not None:
        made = distribute_tensor(parameter.detach(), mesh, [placement], src_data_rank=source)
        module.register_parameter(name, Parameter(made, parameter.requires_grad))


class _DividedParallel(ParallelStyle):
    """A linear layer or an embedding whose weight is divided.

    Args:
        input_layouts: Placement of a plain tensor input.
        output_layouts: Wanted placement of the output.
        use_local_output: If True, the output is this rank's part as a plain tensor. Otherwise it is a
            `DTensor`.
    """

    _SAID = ("input_layouts", "output_layouts", "use_local_output")
    _PLANS: ClassVar[dict[str, tuple[dict[str, Placement], Placement]]] = {}
    """Placements of the parameters and of the input, by module class."""

    def __init__(self, input_layouts: Placement, output_layouts: Placement, use_local_output: bool) -> None:
        self.input_layouts: Placements = (input_layouts,)
        self.output_layouts: Placements = (output_layouts,)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        from .... import nn

        kind = "Linear" if isinstance(module, nn.Linear) else "Embedding"
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding! Got {type(module).__name__}"
            )
        parameters, input_placement = self._PLANS[kind]

        def partition(name: str, own: Module, mesh: DeviceMesh) -> None:
            for each, placement in parameters.items():
                _divide(own, each, mesh, placement, self.src_data_rank)

        def prepare(own: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return (as_distributed(inputs[0], mesh, self.input_layouts, (input_placement,)), *inputs[1:])

        def finish(own: Module, output: Any, mesh: DeviceMesh) -> Any:
            placed = output.redistribute(placements=self.output_layouts)
            return placed.to_local() if self.use_local_output else placed

        return distribute_module(module, device_mesh, partition, prepare, finish)


class ColwiseParallel(_DividedParallel):
    """A linear layer of which each process computes some outputs (`torch.distributed.tensor.parallel.ColwiseParallel`).

    An embedding's processes have some columns of the table.

    Args:
        input_layouts: Placement of a plain tensor input. Default: replicated.
        output_layouts: Wanted placement of the output. Default: sharded along the last dimension, as it is
            computed.
        use_local_output: If True, the output is this rank's part as a plain tensor. Otherwise it is a
            `DTensor`.
    """

    _PLANS: ClassVar = {
        "Linear": ({"weight": Shard(0), "bias": Shard(0)}, REPLICATE),
        "Embedding": ({"weight": Shard(1)}, REPLICATE),
    }

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or REPLICATE, output_layouts or Shard(-1), use_local_output)


class RowwiseParallel(_DividedParallel):
    """A linear layer of which each process takes some inputs (`torch.distributed.tensor.parallel.RowwiseParallel`).

    An embedding's processes have some rows of the table.

    Args:
        input_layouts: Placement of a plain tensor input. Default: sharded along the last dimension.
        output_layouts: Wanted placement of the output. Default: replicated, which takes an all-reduce.
        use_local_output: If True, the output is this rank's part as a plain tensor. Otherwise it is a
            `DTensor`.
    """

    _PLANS: ClassVar = {
        "Linear": ({"weight": Shard(1), "bias": REPLICATE}, Shard(-1)),
        "Embedding": ({"weight": Shard(0)}, REPLICATE),
    }

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or REPLICATE, use_local_output)


class SequenceParallel(ParallelStyle):
    """A norm or dropout of sequences that are divided (`torch.distributed.tensor.parallel.SequenceParallel`).

    Parameters are replicated: each process's own, which must all be the same, and are not sent.

    Args:
        sequence_dim: the dimension of the sequence, along which an input that is a plain tensor is divided.
        use_local_output: If True, the output is this rank's part as a plain tensor. Otherwise it is a
            `DTensor`.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding: Placements = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def partition(name: str, own: Module, mesh: DeviceMesh) -> None:
            for each in list(own._parameters):
                _divide(own, each, mesh, REPLICATE, None)

        def prepare(own: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            if not isinstance(inputs[0], Tensor):
                raise ValueError(
                    f"expecting input of {own} to be a Tensor or DTensor, but got {type(inputs[0]).__name__}"
                )
            first = as_distributed(inputs[0], mesh, self.sequence_sharding, self.sequence_sharding)
            return (first, *inputs[1:])

        def finish(own: Module, output: Any, mesh: DeviceMesh) -> Any:
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, partition, prepare, finish)

    def __repr__(self) -> str:
        dim = self.sequence_sharding[0].dim  # type: ignore[attr-defined]
        return f"SequenceParallel(sequence_dim={dim}, use_local_output={self.use_local_output})"
