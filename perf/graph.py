"""A training step of the digits example on a GPU: eager beside a replay of its captured graph.

Both do the same work on the same batch: forward, loss, backward, and the update in place. A step is timed from its
first call until the device is done, and its host time until the calls have returned. It needs a GPU: in Triton's
interpreter neither time means anything.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .interleaved import paired_ratio, rotated
from .machine import write_report
from .refusal import RefusalError, require_positive, require_writable

BAR = 3.0
"""How many times faster than an eager step a replay is to be."""
EXAMPLE = Path("examples") / "train_digits.py"
WARM_UP = 11


def load_example(path: Path) -> ModuleType:
    """Load the example's module, which is not part of the package."""
    spec = importlib.util.spec_from_file_location("train_digits", path)
    if spec is None or spec.loader is None:
        raise RefusalError(f"--example {path}: no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def training_step(tt: Any, example: ModuleType, batch_size: int) -> Callable[[], Any]:
    """Return a function that runs a step of the example on one batch and returns the loss."""
    functional = importlib.import_module("..nn.functional", __package__)
    tt.manual_seed(0)
    images, labels, _, _ = example.load_digits("cuda")
    images, labels = images[:batch_size].clone(), labels[:batch_size].clone()
    model = example.ConvNet().to("cuda")
    # A rate of 0 keeps the loss where it is, however many steps are measured.
    optimizer = tt.optim.SGD(model.parameters(), 0.0, 0.9)

    def step() -> Any:
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def captured(tt: Any, step: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """(replay, the loss that it writes) of a graph of the step."""
    side = tt.cuda.Stream()
    side.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    tt.cuda.current_stream().wait_stream(side)
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        loss = step()
    return graph.replay, loss


def timed(
    run: Callable[[], object], synchronize: Callable[[], None], repetitions: int
) -> tuple[float, float]:
    """Seconds of one repetition: (until the device was done, until the calls had returned)."""
    synchronize()
    started = time.perf_counter()
    for _ in range(repetitions):
        run()
    returned = time.perf_counter()
    synchronize()
    return (time.perf_counter() - started) / repetitions, (returned - started) / repetitions


def measure(
    rivals: dict[str, Callable[[], object]], synchronize: Callable[[], None], rounds: int, repetitions: int
) -> dict[str, list[tuple[float, float]]]:
    """Measure the (whole, host) seconds of a step for each implementation, once a round, interleaved."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in rivals}
    for run in rivals.values():
        timed(run, synchronize, repetitions)
    for turn in range(rounds):
        for name in rotated(list(rivals), turn):
            seconds[name].append(timed(rivals[name], synchronize, repetitions))
    return seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf graph`."""
    parser.add_argument(
        "--example",
        type=Path,
        default=Path(__file__).resolve().parents[1] / EXAMPLE,
        help="the example's file",
    )
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=20, help="slices of each rival")
    parser.add_argument("--repetitions", type=int, default=20, help="steps in a slice")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the result to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print with the bar, and write where `--json` says. Raises RefusalError."""
    require_positive(arguments, "batch_size", "rounds", "repetitions")
    require_writable(arguments.json)
    if not arguments.example.is_file():
        raise RefusalError(f"--example {arguments.example}: no such file; the measurement runs in a checkout")
    tt = importlib.import_module("..", __package__)
    drivers = importlib.import_module("..runtime.cuda.driver", __package__)
    if drivers.is_simulated() or not tt.cuda.is_available():
        raise RefusalError("needs a GPU; simulated devices have no times to compare")
    step = training_step(tt, load_example(arguments.example), arguments.batch_size)
    replay, loss = captured(tt, step)
    replay()
    eager, replayed = step().item(), loss.item()
    if eager != replayed:
        print(f"graph: WRONG: the replay's loss is {replayed!r}, the eager step's {eager!r}", file=sys.stderr)
        return 1
    seconds = measure(
        {"eager": step, "replay": replay}, tt.cuda.synchronize, arguments.rounds, arguments.repetitions
    )
    whole = {name: [each for each, _ in times] for name, times in seconds.items()}
    host = {name: [each for _, each in times] for name, times in seconds.items()}
    ratio = paired_ratio(whole["eager"], whole["replay"])
    for name in seconds:
        print(
            f"{name:<8}{1e6 * statistics.median(whole[name]):10.1f} us a step"
            f"{1e6 * statistics.median(host[name]):10.1f} us of the host"
        )
    print(f"eager / replay: {ratio:.2f}  bar {BAR}: {'met' if ratio >= BAR else 'MISSED'}")
    if arguments.json:
        results = {
            "device": tt.cuda.get_device_name(),
            "batch_size": arguments.batch_size,
            "whole_seconds": whole,
            "host_seconds": host,
            "ratio": ratio,
        }
        write_report(arguments.json, "graph", results, {"cupy": importlib.import_module("cupy").__version__})
    return 0
