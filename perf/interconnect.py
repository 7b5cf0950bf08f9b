"""Ranks of this machine: what joins them, measured, and predicted times beside measured ones.

Starts ranks over MPI, fits latency and bandwidth to their collectives (`tt.perf.Interconnect.measured`), and then times
an all_reduce of some sizes, and a step of a small model whose gradients are averaged in buckets, beside what the fit
and `tt.perf.plan` say of them. The fastest round counts, since whatever else the machine
does makes it slower. Ranks have one thread each; more ranks than processors wait for each other.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from .. import distributed, nn, optim
from ..dispatch.generated.functions import cat, ones
from ..dispatch.random import manual_seed
from .planning import DataParallel, Interconnect, plan
from .planning.communication.fitting import seconds_of
from .ranks import Ranks
from .refusal import RefusalError

SIZES = (4, 4 << 20, 64 << 20)
STEP = "step, gradients averaged"
BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20
WIDTH, LAYERS, BATCH = 1024, 6, 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m triten.perf interconnect`."""
    parser.add_argument("--ranks", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each thing is timed (default: 7)")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print. Raises RefusalError where there is no MPI, or for too few ranks or rounds."""
    if arguments.ranks < 2 or arguments.rounds < 1:
        raise RefusalError("--ranks must be at least 2, and --rounds at least 1")
    if not distributed.is_mpi_available():
        raise RefusalError("MPI is not installed: pip install 'triten[mpi]'")
    try:
        with Ranks(__name__.partition(".")[0], "mpi", arguments.ranks) as ranks:
            found = ranks.tell(
                "call", function=f"{__name__}:measured_rows", arguments={"rounds": arguments.rounds}
            )[0]
    except RuntimeError as error:
        raise RefusalError(str(error)) from None
    print(found["interconnect"])
    print(f"{'':<28}{'measured us':>14}{'predicted us':>14}{'ratio':>8}")
    for name, measured, predicted in found["rows"]:
        print(f"{name:<28}{1e6 * measured:>14,.1f}{1e6 * predicted:>14,.1f}{predicted / measured:>8.2f}")
    return 0


def measured_rows(rounds: int) -> dict[str, Any]:
    """In a rank: the fitted interconnect in words, and rows of name, measured and predicted seconds."""
    network = Interconnect.measured(rounds=rounds)
    ranks = distributed.get_world_size()
    rows: list[tuple[str, float, float]] = []
    for nbytes in SIZES:
        tensor = ones((nbytes // 4,)) * 0.0
        measured = seconds_of(lambda tensor=tensor: distributed.all_reduce(tensor), rounds)  # type: ignore[misc]
        predicted = network.collective("all_reduce", nbytes, ranks).seconds
        rows.append((f"all_reduce of {nbytes:,} bytes", measured, predicted))
    rows.append((STEP, *step_seconds(network, rounds)))
    link = network.inside
    said = (
        f"{ranks} ranks: latency {1e6 * link.latency:.2f} us, {link.bytes_per_second / 1e9:.2f} GB/s, "
        f"{1e9 * link.seconds_per_reduced_byte:.3f} ns for a reduced byte; {network.source}"
    )
    return {"interconnect": said, "rows": rows}


def step_seconds(network: Interconnect, rounds: int) -> tuple[float, float]:
    """Measured and predicted seconds of a step whose gradients are averaged in buckets after backward."""
    manual_seed(0)
    layers = [module for _ in range(LAYERS) for module in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = nn.Sequential(*layers)
    optimizer = optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    batch = ones((BATCH, WIDTH))
    parameters = [*model.parameters()][::-1]
    ranks = distributed.get_world_size()

    def alone(model: nn.Module, optimizer: optim.Optimizer, batch: Any) -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def averaged() -> None:
        model(batch).square().mean().backward()
        for bucket in _buckets(parameters):
            flat = cat([parameter.grad.reshape(-1) for parameter in bucket])
            distributed.all_reduce(flat)
            flat.div_(ranks)
            start = 0
            for parameter in bucket:
                parameter.grad.copy_(flat[start : start + parameter.numel()].view(parameter.shape))
                start += parameter.numel()
        optimizer.step()
        optimizer.zero_grad()

    averaged()
    samples = []
    for _ in range(rounds):
        distributed.barrier()
        samples.append(seconds_of_one(averaged))
    distributed.barrier()
    predicted = plan(
        alone, model, optimizer, batch, device="cpu", mesh={"dp": ranks}, interconnect=network,
        strategies={"dp": DataParallel(BUCKET_BYTES >> 20)},
    ).step_seconds  # fmt: skip
    distributed.barrier()
    return min(samples), predicted


def seconds_of_one(run: Any) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _buckets(parameters: list[Any]) -> list[list[Any]]:
    """Parameters in buckets, as `DataParallel` has them."""
    found: list[list[Any]] = [[]]
    filled = 0
    for parameter in parameters:
        found[-1].append(parameter)
        filled += parameter.numel() * parameter.itemsize
        if filled >= (BUCKET_BYTES if len(found) > 1 else FIRST_BUCKET_BYTES):
            found.append([])
            filled = 0
    return [bucket for bucket in found if bucket]
