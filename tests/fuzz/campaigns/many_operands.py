"""Compiled functions of many inputs, outputs, steps or dimensions, beside the functions themselves."""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

import triten as tt

from ..campaign import AGREED, Campaign, Case, Finding, Outcome

COUNTS = (1, 2, 30, 58, 59, 60, 61, 62, 63, 64, 65, 66, 80, 120, 200)
OUTPUTS = (1, 1, 1, 2, 3, 31, 59, 60, 61, 64, 65, 100)
LENGTHS = (0, 0, 1, 5, 63, 64, 65, 130, 300)
SHAPES = ([7], [64, 256], [20, 1000], [3, 5, 4097], [1 << 16])
STEPS = ("add", "mul", "relu", "where", "rows", "column", "gather", "dropout", "cat", "sine", "half")
SCALE = 0.5


def dimensions(rng: random.Random) -> list[int]:
    """Return the sizes of a tensor of 64 dimensions, some of which have two elements."""
    sizes = [1] * 64
    for place in rng.sample(range(64), 10):
        sizes[place] = 2
    return sizes


def applied(step: str, x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
    """Return the result of one step of a program."""
    match step:
        case "add":
            return x + y * SCALE
        case "mul":
            return x * SCALE - y
        case "relu":
            return tt.relu(x) + y
        case "where":
            return tt.where(x > y, x, y * SCALE)
        case "rows":
            return x - y.amax(-1, keepdim=True)
        case "column":
            return x * SCALE + y.select(-1, 0).unsqueeze(-1)
        case "gather":
            return x + y.gather(-1, y.long().abs().remainder(y.shape[-1]))
        case "dropout":
            return tt.nn.functional.dropout(x, 0.25) + y
        case "cat":
            return tt.cat([x * SCALE, y], -1).narrow(-1, 0, x.shape[-1])
        case "sine":
            return x.sin() + y
        case _:
            return (x.half() + 1).float() * SCALE + y


def program(case: Case, given: list[tt.Tensor]) -> list[tt.Tensor]:
    """Compute a chain over all inputs, of which some values are results."""
    x, made = given[0], []
    steps, length = case["steps"], max(len(given) - 1, case["length"])
    for i in range(length):
        x = applied(steps[i % len(steps)], x, given[(i + 1) % len(given)])
        made.append(x)
    made = made or [x * 2]
    count = case["outputs"]
    return [made[-1 - i] if i < len(made) else made[i % len(made)] + i for i in range(count)]


class ManyOperands(Campaign):
    """Results bitwise identical to eager, and gradients within rounding."""

    name = "many_operands"
    limit: ClassVar[float] = 120.0

    def draw(self, rng: random.Random) -> Case:
        """Generate counts near the kernels' bounds, and steps that make kernels of each kind."""
        shape = dimensions(rng) if rng.random() < 0.15 else rng.choice(SHAPES)
        return {
            "inputs": rng.choice(COUNTS),
            "outputs": rng.choice(OUTPUTS),
            "length": rng.choice(LENGTHS),
            "shape": shape,
            "steps": rng.sample(STEPS, rng.randint(1, 3)),
            "grad": rng.random() < 0.3,
            "seed": rng.randrange(1 << 30),
        }

    def run(self, case: Case) -> Outcome:
        """Call a program eagerly and compiled, twice."""
        shape = tuple(case["shape"])
        draws = np.random.default_rng(case["seed"]).standard_normal((case["inputs"], int(np.prod(shape))))
        arrays = draws.astype(np.float32)

        def tensors() -> list[tt.Tensor]:
            return [tt.tensor(each).reshape(shape).requires_grad_(case["grad"]) for each in arrays]

        def call(function: Any) -> tuple[list[tt.Tensor], list[tt.Tensor]]:
            given = tensors()
            tt.manual_seed(case["seed"])
            made = function(given)
            if case["grad"]:
                sum(each.double().mean() for each in made).backward()
            return [each.detach() for each in made], [x.grad for x in given if x.grad is not None]

        compiled = tt.compile(lambda given: program(case, given), fullgraph=True)
        expected, gradients = call(lambda given: program(case, given))
        for number in range(2):
            found, own = call(compiled)
            for i, (a, b) in enumerate(zip(found, expected, strict=True)):
                if a.shape != b.shape or a.numpy().tobytes() != b.numpy().tobytes():
                    return Finding("wrong value", f"call {number}: output {i} differs")
            if len(own) != len(gradients):
                return Finding(
                    "wrong value", f"call {number}: {len(own)} gradients, eagerly {len(gradients)}"
                )
            for i, (a, b) in enumerate(zip(own, gradients, strict=True)):
                if not np.allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6, equal_nan=True):
                    return Finding("wrong value", f"call {number}: the gradient of input {i} differs")
        return AGREED

    def smaller(self, case: Case) -> Iterator[Case]:
        """Halve the counts, then drop steps."""
        for name, least in (("inputs", 1), ("outputs", 1), ("length", 0)):
            for less in (case[name] // 2, case[name] - 1):
                if least <= less < case[name]:
                    yield case | {name: less}
        if len(case["steps"]) > 1:
            yield from (case | {"steps": [s for s in case["steps"] if s != each]} for each in case["steps"])
        if case["grad"]:
            yield case | {"grad": False}

    def describe(self, case: Case) -> str:
        """Return the case as a program that a person can paste."""
        return (
            "from triten.tests.fuzz.campaigns.many_operands import ManyOperands\n"
            f"print(ManyOperands().run({case!r}))"
        )
