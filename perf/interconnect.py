"""Interconnect of this machine's ranks: measured, with predicted beside measured times.

The command starts ranks over MPI, and fits latency and bandwidth to their collectives
(`tt.perf.Interconnect.measured`). Then it times an all_reduce of some sizes, and a step of a small model
whose gradients are averaged in buckets. It prints the predictions of the fit and of `tt.perf.plan` beside the
times. The fastest round counts, since other load on the machine only slows rounds down. Each rank has one
thread; more ranks than processors wait for each other.
"""

from __future__ import annotations

import argparse
from typing import Any

from .. import distributed, nn, optim
from ..dispatch.generated.functions import cat, ones
from ..dispatch.random import manual_seed
from .planning import DataParallel, Interconnect, Link, plan
from .planning.communication.fitting import (
    COLLECTIVES,
    DEFAULT_SIZES,
    Timed,
    buffers_of,
    collective_run,
    fastest,
    fitted,
)
from .ranks import Ranks
from .refusal import RefusalError

SIZES = (4, 4 << 20, 64 << 20)
STEP = "step, gradients averaged"
BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20
WIDTH, LAYERS, BATCH = 1024, 6, 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf interconnect`."""
    parser.add_argument("--ranks", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each thing is timed (default: 7)")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print. Raise RefusalError without MPI, or for too few ranks or rounds."""
    if arguments.ranks < 2 or arguments.rounds < 1:
        raise RefusalError("--ranks must be at least 2, and --rounds at least 1")
    if not distributed.is_mpi_available():
        raise RefusalError("MPI is not installed: pip install 'triten[mpi]'")
    try:
        with Ranks(__name__.partition(".")[0], "mpi", arguments.ranks) as ranks:
            report = ranks.tell(
                "call", function=f"{__name__}:measured_rows", arguments={"rounds": arguments.rounds}
            )[0]
    except RuntimeError as error:
        raise RefusalError(str(error)) from None
    print(report["interconnect"])
    print(f"{'':<28}{'measured us':>14}{'predicted us':>14}{'ratio':>8}")
    for name, measured, predicted in report["rows"]:
        print(f"{name:<28}{1e6 * measured:>14,.1f}{1e6 * predicted:>14,.1f}{predicted / measured:>8.2f}")
    return 0


def measured_rows(rounds: int) -> dict[str, Any]:
    """Return the fitted interconnect as text, and rows of name, measured and predicted seconds; runs in a rank."""
    ranks = distributed.get_world_size()
    step = AveragedStep()
    buffers = buffers_of(max(*SIZES, *DEFAULT_SIZES), ranks)
    cases = [(collective, nbytes) for collective in COLLECTIVES for nbytes in DEFAULT_SIZES]
    fitting = [collective_run(*case, buffers) for case in cases]
    held = [collective_run("all_reduce", nbytes, buffers) for nbytes in SIZES]
    # Interleaved, so that other load affects the fitted and the compared runs alike.
    seconds = fastest([*fitting, *held, step.run], rounds)
    timed = [Timed(*case, each) for case, each in zip(cases, seconds[: len(cases)], strict=True)]
    network = fitted(timed, ranks, distributed.get_backend())
    predicted = [network.collective("all_reduce", nbytes, ranks).seconds for nbytes in SIZES]
    names = [*(f"all_reduce of {nbytes:,} bytes" for nbytes in SIZES), STEP]
    rows = list(zip(names, seconds[len(cases) :], [*predicted, step.predicted(network)], strict=True))
    description = f"{ranks} ranks: {_figures(network.inside)}"
    if network.inside.large is not None:
        description += f"; from {network.inside.large_from:,.0f} bytes on {_figures(network.inside.large)}"
    return {"interconnect": f"{description}; {network.source}", "rows": rows}


def _figures(link: Link) -> str:
    return (
        f"latency {1e6 * link.latency:.2f} us, {link.bytes_per_second / 1e9:.2f} GB/s, "
        f"{1e9 * link.seconds_per_reduced_byte:.3f} ns for a reduced byte"
    )


class AveragedStep:
    """Step of a small model whose gradients are averaged in buckets after backward."""

    def __init__(self) -> None:
        manual_seed(0)
        layers = [module for _ in range(LAYERS) for module in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.model = nn.Sequential(*layers)
        self.optimizer = optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9)
        self.batch = ones((BATCH, WIDTH))
        self.parameters: list[Any] = [*self.model.parameters()][::-1]
        self.ranks = distributed.get_world_size()

    def run(self) -> None:
        """Do it."""
        self.model(self.batch).square().mean().backward()
        for bucket in _buckets(self.parameters):
            flat = cat([parameter.grad.reshape(-1) for parameter in bucket])
            distributed.all_reduce(flat)
            flat.div_(self.ranks)
            start = 0
            for parameter in bucket:
                parameter.grad.copy_(flat[start : start + parameter.numel()].view(parameter.shape))
                start += parameter.numel()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def predicted(self, network: Interconnect) -> float:
        """Return the step time in seconds that `tt.perf.plan` predicts for one rank on a mesh of these ranks."""

        def alone(model: nn.Module, optimizer: optim.Optimizer, batch: Any) -> None:
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return plan(
            alone, self.model, self.optimizer, self.batch, device="cpu", mesh={"dp": self.ranks},
            interconnect=network, strategies={"dp": DataParallel(BUCKET_BYTES >> 20)},
        ).step_seconds  # fmt: skip


def _buckets(parameters: list[Any]) -> list[list[Any]]:
    """Return the parameters in the buckets of `DataParallel`."""
    buckets: list[list[Any]] = [[]]
    filled = 0
    for parameter in parameters:
        buckets[-1].append(parameter)
        filled += parameter.numel() * parameter.itemsize
        if filled >= (BUCKET_BYTES if len(buckets) > 1 else FIRST_BUCKET_BYTES):
            buckets.append([])
            filled = 0
    return [bucket for bucket in buckets if bucket]
