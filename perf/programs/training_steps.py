"""Training steps of five networks on all cores, beside PyTorch's, and the time of each of their operators.

`python -m triten.perf programs --training-steps` times them. Learning rates are small: on the same batch, larger ones
end at gradients of zero, and then the moments of Adam are subnormal numbers, which processors multiply slowly.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from .contest import PYTORCH, TRITEN, Worker, build, triten_command
from .program import Program

SCRIPT = "training_models.py"
ADAMW = "torch.optim.AdamW(parameters, lr=1e-6)"
CLIPPED = "ClippedAdamW(parameters, lr=1e-6)"
SGD = "torch.optim.SGD(parameters, lr=1e-6, momentum=0.9)"
LOSS = "F.cross_entropy(model(inputs[0]), inputs[1])"
WARM_UP, PROFILED = 10, 20
"""Steps before the profile, and steps in it."""


def _step(name: str, model: str, inputs: str, labels: str, optimizer: str) -> Program:
    return Program(
        name, "", model=model, inputs=f"({inputs}, {labels})", call=LOSS, optimizer=optimizer, script=SCRIPT
    )


IMAGES, TOKENS, SEQUENCES = "normal(8, 3, 96, 96)", "integers(65, 8, 64)", "normal(16, 40, 64)"
PERCEPTRON, LSTM = "perceptron(784, 512, 256, 10)", "SequenceClassifier(64, 128, 2, 10)"
TRAINING_STEPS = (
    _step("MLP 784-512-256-10, batch 64", PERCEPTRON, "normal(64, 784)", "integers(10, 64)", ADAMW),
    _step("GPT 6 layers, width 384", "GPT(65, 64, 384, 6, 6)", TOKENS, "integers(65, 512)", CLIPPED),
    _step("GPT 4 layers, width 64", "GPT(65, 64, 64, 4, 4)", TOKENS, "integers(65, 512)", CLIPPED),
    _step("ResNet-18, 8x3x96x96", "resnet18(10)", IMAGES, "integers(10, 8)", SGD),
    _step("LSTM 2 layers, 16x40, 64 to 128", LSTM, SEQUENCES, "integers(10, 16)", ADAMW),
)


def operators_of(program: Program, pytorch: str, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Return the seconds and the calls of each operator in a step, by library and operator, of its profiler."""
    operators = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, command in ((PYTORCH, [pytorch, "-P"]), (TRITEN, triten_command())):
            with Worker(command, None, seconds, threads=None) as worker:
                build(worker, program, Path(folder), make_weights=name == PYTORCH)
                worker.ask("steps", count=WARM_UP)
                operators[name] = worker.ask("operators", count=PROFILED)["operators"]
    return operators


def operator_table(operators: dict[str, dict[str, list[float]]], count: int) -> str:
    """Return a table of the `count` operators that take the longest in either library, as markdown.

    Example:
        >>> rows = {"triten": {"aten::mm": [2e-3, 3]}, "torch": {"aten::mm": [1e-3, 3], "aten::t": [1e-5, 6]}}
        >>> print(operator_table(rows, 1))
        | operator | triten ms | PyTorch ms | calls | PyTorch's calls |
        |---|---|---|---|---|
        | aten::mm | 2.000 | 1.000 | 3 | 3 |
    """
    ours, theirs = operators[TRITEN], operators[PYTORCH]
    none = [0.0, 0.0]
    names = sorted(
        {*ours, *theirs}, key=lambda name: -max(ours.get(name, none)[0], theirs.get(name, none)[0])
    )
    lines = ["| operator | triten ms | PyTorch ms | calls | PyTorch's calls |", "|---|---|---|---|---|"]
    for name in names[:count]:
        (seconds, calls), (their_seconds, their_calls) = ours.get(name, none), theirs.get(name, none)
        lines.append(
            f"| {name} | {1e3 * seconds:.3f} | {1e3 * their_seconds:.3f} | {calls:g} | {their_calls:g} |"
        )
    return "\n".join(lines)
