"""Parallelism strategies of a mesh dimension: data parallel, sharded, tensor parallel, or a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MEBI = 1 << 20


@dataclass(frozen=True)
class DataParallel:
    """Every rank has all parameters, and gradients are averaged (`torch.nn.parallel.DistributedDataParallel`).

    Gradients are reduced in buckets, in the order in which backward makes them, while backward goes on.

    Attributes:
        bucket_cap_mb: MiB of a bucket; the first bucket has one.
        gradient_as_bucket_view: If True, gradients are views of the buckets. Otherwise the buckets are
            copies.
    """

    bucket_cap_mb: float = 25.0
    gradient_as_bucket_view: bool = False

    def __post_init__(self) -> None:
        if not self.bucket_cap_mb > 0:
            raise ValueError(f"DataParallel: bucket_cap_mb must be greater than 0, got {self.bucket_cap_mb}")


@dataclass(frozen=True)
class FullyShard:
    """Sharding of each parameter, gradient and state over the ranks (`torch.distributed.fsdp.fully_shard`).

    Each module of a ModuleList or a Sequential is a unit; all other modules form one more. The parameters of
    a unit are gathered before its forward and its backward. Its gradients are reduce-scattered afterwards.

    Attributes:
        reshard_after_forward: If True, free gathered parameters after forward, and gather them again for
            backward.
        prefetch: Number of units gathered ahead while another unit computes.
    """

    reshard_after_forward: bool = True
    prefetch: int = 1

    def __post_init__(self) -> None:
        if self.prefetch < 0:
            raise ValueError(f"FullyShard: prefetch must not be negative, got {self.prefetch}")


@dataclass(frozen=True)
class TensorParallel:
    """Split of one layer's weight by columns and of the next layer's by rows (Shoeybi et al., "Megatron-LM",
    2019).

    The work from the first column-wise layer to the row-wise layer is divided among the ranks. The output of
    the row-wise layer is all-reduced; in backward, so is the gradient of the column-wise layers' input. The
    ranks wait for both.

    Attributes:
        plan: ``"colwise"`` or ``"rowwise"`` by the name of a module, with ``*`` as wildcard (the plan of
            `torch.distributed.tensor.parallel.parallelize_module`).

    Example:
        >>> import triten as tt
        >>> strategy = tt.perf.TensorParallel({"*.up": "colwise", "*.down": "rowwise"})
    """

    plan: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.plan:
            raise ValueError(
                "TensorParallel: plan must name modules as 'colwise' or 'rowwise'; without one nothing is divided"
            )
        for name, style in self.plan.items():
            if style not in ("colwise", "rowwise"):
                raise ValueError(f"TensorParallel: {name!r} must be 'colwise' or 'rowwise', got {style!r}")


@dataclass(frozen=True)
class Pipeline:
    """Every rank has some of the units, and microbatches go from rank to rank (`torch.distributed.pipelining`).

    The units are those of `FullyShard`, divided in their order so that the slowest rank is as fast as it can be.

    Attributes:
        microbatches: Number of parts of the program's batch. Default: 4.
        schedule: ``"1f1b"`` (Narayanan et al., "PipeDream", 2019) or ``"gpipe"`` (Huang et al., "GPipe",
            2019). 1F1B holds the activations of as many microbatches as later ranks exist, GPipe those of
            all. Default: ``"1f1b"``.
    """

    microbatches: int = 4
    schedule: str = "1f1b"

    def __post_init__(self) -> None:
        if self.microbatches < 1:
            raise ValueError(f"Pipeline: microbatches must be at least 1, got {self.microbatches}")
        if self.schedule not in ("1f1b", "gpipe"):
            raise ValueError(f"Pipeline: schedule must be '1f1b' or 'gpipe', got {self.schedule!r}")


Strategy = DataParallel | FullyShard | TensorParallel | Pipeline

DEFAULTS: Mapping[str, Strategy] = {
    "dp": DataParallel(),
    "ddp": DataParallel(),
    "dp_replicate": DataParallel(),
    "replicate": DataParallel(),
    "fsdp": FullyShard(),
    "dp_shard": FullyShard(),
    "shard": FullyShard(),
    "pp": Pipeline(),
    "pipeline": Pipeline(),
}
"""The strategies of dimensions that have one of these names."""
