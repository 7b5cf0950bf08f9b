"""Training steps of whole networks: forward pass, cross entropy, backward pass, optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ...interleaved import Slice, timed_without_collector
from ..libraries import Library
from ..networks import convolutional, feed_forward, recurrent, transformers
from ..workload import Array, Operand, Scale, Workload, bar

BAR = 1.5
# Tolerance of losses after the same steps from the same parameters; optimizers amplify rounding.
AGREEMENT, STEPS = 2e-3, 2


@dataclass(frozen=True)
class Network:
    """Network of the table: its constructor for a library's module, its data, and its training.

    With `clips`, a step limits the norm of all gradients.
    """

    name: str
    make: Callable[[ModuleType], Any]
    inputs: Callable[[np.random.Generator], Array]
    labels: Callable[[np.random.Generator], Array]
    size: str
    optimizer: str = "SGD"
    clips: bool = False


def _images(batch: int, side: int) -> Callable[[np.random.Generator], Array]:
    return lambda generator: generator.standard_normal((batch, 3, side, side), np.float32)


def _whole(below: int, *shape: int) -> Callable[[np.random.Generator], Array]:
    return lambda generator: generator.integers(0, below, shape)


def networks(scale: Scale) -> tuple[Network, ...]:
    """Return the networks of the scale."""
    batch, side = scale.side(8, 4, 1), scale.side(32, 32, 16)
    sequences = scale.side(16, 8, 1)
    length, vocabulary = scale.side(35, 16, 3), scale.side(2000, 500, 11)
    tokens, width = scale.side(64, 32, 4), scale.side(128, 64, 8)
    image, sequence = f"{batch}x3x{side}x{side}", f"{sequences}x{length}"
    c, r, t = convolutional, recurrent, transformers

    def cifar(name: str, make: Callable[..., Any], *sizes: Any) -> Network:
        return Network(
            name, lambda library: make(library, *sizes, 10), _images(batch, side), _whole(10, batch), image
        )

    def classifier(name: str, layer: str) -> Network:
        return Network(
            name, lambda library: r.sequence_classifier(library, layer, 32, width, 10),
            lambda generator: generator.standard_normal((sequences, length, 32), np.float32),
            _whole(10, sequences), sequence,
        )  # fmt: skip

    return (
        Network(
            "LSTM language model", lambda library: r.language_model(library, vocabulary, width, 2),
            _whole(vocabulary, length, sequences), _whole(vocabulary, length * sequences), f"{length}x{sequences}",
        ),
        classifier("RNN", "RNN"),
        classifier("GRU", "GRU"),
        Network(
            "GPT of 6 layers", lambda library: t.gpt(library, 65, tokens, width, 4, scale.side(6, 3, 1)),
            _whole(65, 4, tokens), _whole(65, 4 * tokens), f"4x{tokens}", "AdamW",
        ),
        cifar("vision transformer", t.vision_transformer, side, 4, width, 4, 4),
        cifar("shifted windows", t.shifted_windows, side // 4, 4, width, 4, 4),
        cifar("residual network", c.residual_network, scale.side(32, 16, 4), 2, 1),
        cifar("grouped residual network", c.residual_network, scale.side(32, 16, 8), 2, 8),
        cifar("mobile network", c.mobile_network, scale.side(16, 8, 2)),
        cifar("ConvNeXt", c.convnext, scale.side(32, 16, 4) * np.array([1, 2, 4]), 2),
        Network(
            "U-Net", lambda library: c.u_network(library, scale.side(16, 8, 2), 4), _images(batch, side),
            _whole(4, batch, side, side), image,
        ),
        *_training_steps(scale),
    )  # fmt: skip


def _training_steps(scale: Scale) -> tuple[Network, ...]:
    """Return the networks of `perf/programs/training_steps.py`."""
    c, f, r, t, tiny = convolutional, feed_forward, recurrent, transformers, scale.rehearsal
    batch, length, steps, side = (
        scale.side(8, 8, 1),
        scale.side(64, 64, 4),
        scale.side(40, 40, 3),
        scale.side(96, 96, 64),
    )
    wide, narrow, rows = scale.side(384, 384, 12), scale.side(64, 64, 8), scale.side(16, 16, 1)
    widths = (8, 4, 3) if tiny else (784, 512, 256, 10)

    def gpt(width: int, heads: int, layers: int) -> Network:
        return Network(
            f"GPT {width} wide", lambda library: t.gpt(library, 65, length, width, heads, layers),
            _whole(65, batch, length), _whole(65, batch * length), f"{layers} layers {batch}x{length}", "AdamW", True,
        )  # fmt: skip

    return (
        Network(
            "perceptron", lambda library: f.perceptron(library, widths),
            lambda generator: generator.standard_normal((8 * batch, widths[0]), np.float32),
            _whole(widths[-1], 8 * batch), f"{8 * batch}x" + "-".join(map(str, widths)), "AdamW",
        ),
        gpt(wide, 6, scale.side(6, 6, 1)),
        gpt(narrow, 4, scale.side(4, 4, 1)),
        Network(
            "ResNet-18", lambda library: c.residual_network(library, scale.side(64, 64, 4), 2, 1, 10, 7),
            _images(batch, side), _whole(10, batch), f"{batch}x3x{side}x{side}",
        ),
        Network(
            "LSTM of 2 layers", lambda library: r.sequence_classifier(library, "LSTM", 64, 2 * narrow, 10, 2),
            lambda generator: generator.standard_normal((rows, steps, 64), np.float32), _whole(10, rows),
            f"{rows}x{steps}", "AdamW",
        ),
    )  # fmt: skip


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield a row for each network."""
    for network in networks(scale):
        losses: dict[str, float] = {}
        yield Workload(
            "models", "training step", network.name, network.size, "float32", direction="both", bar=bar(BAR),
            prepare=partial(_prepare, network, losses),
        )  # fmt: skip


def _prepare(network: Network, losses: dict[str, float], library: Library) -> Slice | None:
    if library.is_arrays:
        return None
    step = training_step(network, library)
    losses[library.name] = [float(step()) for _ in range(STEPS)][-1]
    first, ours = next(iter(losses.values())), losses[library.name]
    if not abs(ours - first) <= AGREEMENT * abs(first):
        raise RuntimeError(f"a loss of {ours:.6g} after {STEPS} steps, of the others {first:.6g}")

    def work(count: int) -> float:
        library.synchronize()
        seconds = timed_without_collector(lambda: [step() for _ in range(count)])
        library.synchronize()
        return seconds

    return work


def training_step(network: Network, library: Library) -> Callable[[], Any]:
    """Return a function that runs one training step and returns the loss. All libraries get the same
    parameters and data.
    """
    module, generator = library.module, np.random.default_rng(0)
    model = network.make(module).to(library.device)
    with module.no_grad():
        for parameter in model.parameters():
            drawn = generator.standard_normal(tuple(parameter.shape)).astype(np.float32)
            fan_in = max(int(np.prod(parameter.shape[1:])), 1)
            # Scales of norms are around one; the rest keeps the size of what goes through.
            scaled = 1 + 0.1 * drawn if parameter.dim() == 1 else drawn * fan_in**-0.5
            parameter.copy_(module.from_numpy(np.asarray(scaled, np.float32)))
    inputs, labels = (
        library.tensor(Operand(lambda made=made: made))  # type: ignore[misc]
        for made in (network.inputs(generator), network.labels(generator))
    )
    parameters = list(model.parameters())
    optimizer = getattr(module.optim, network.optimizer)(parameters, lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = module.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        if network.clips:
            module.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    return step
