"""Randomized programs compute the same compiled and eagerly, gradients included.

A program is five to thirty steps over three inputs. Each step takes earlier values and makes another:
pointwise operators of mixed dtypes, views, reductions, matmuls, writes, random ops. The generator leaves out
steps that an eager run refuses.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, graphs, same
from triten.tests.shared.comparison import close

F = tt.nn.functional
MAX_ELEMENTS = 20_000
SIZES = ((3, 4), (4, 4), (2, 3, 4), (5,), (40, 50), (6, 7))
LARGE = (200, 300)

UNARY = (
    "exp",
    "sin",
    "tanh",
    "sigmoid",
    "relu",
    "neg",
    "abs",
    "sqrt",
    "cos",
    "log1p",
    "square",
    "floor",
    "erf",
)
BINARY = (tt.add, tt.mul, tt.sub, tt.maximum, tt.div)
NUMBER: tuple[Callable[[Any], Any], ...] = (
    lambda a: a * 1.7, lambda a: a + 3, lambda a: a * 1.0 - 0.5, lambda a: a / 2, lambda a: 1 - a * 2,
)  # fmt: skip
VIEW: tuple[Callable[[Any], Any], ...] = (
    lambda a: a.transpose(0, 1), lambda a: a.reshape(-1), lambda a: a[:1], lambda a: a[..., 1:],
    lambda a: a.expand(2, *a.shape), lambda a: a.unsqueeze(0), lambda a: a[::2].diagonal(),
)  # fmt: skip
REDUCTION: tuple[Callable[[Any], Any], ...] = (
    lambda a: a.float().sum(-1, keepdim=True), lambda a: a.float().mean(0), lambda a: a.amax(-1),
    lambda a: a.float().cumsum(0), lambda a: a.float().var(),
)  # fmt: skip
DTYPES = (tt.float32, tt.bfloat16, tt.float64, tt.float16, tt.int32)


class Step(NamedTuple):
    """Step of a program: its kind, two operands and the variant, as fractions of the available ones."""

    kind: str
    first: float
    second: float
    variant: float

    def pick(self, choices: Sequence[Any]) -> Any:
        """Return the choice that the step's variant selects."""
        return choices[int(self.variant * len(choices))]


def binary(step: Step, a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    """Apply an operator to two tensors; replace the second by its mean if the shapes differ."""
    b = b if a.shape == b.shape else b.float().mean()
    return step.pick(BINARY)(a.float() if a.dtype is tt.bool else a, b.float() if b.dtype is tt.bool else b)


def written(step: Step, a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    """Write to a value in place, which may have views."""
    if a.requires_grad and a.is_leaf:
        raise RuntimeError("a leaf is not written to")
    return a.mul_(2).add_(1)


def row_set(step: Step, a: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    """Return a copy with zeros in the first row."""
    made = a.clone()
    made[0] = 0
    return made


KINDS: dict[str, Callable[[Step, Any, Any], Any]] = {
    "unary": lambda step, a, b: getattr(tt, step.pick(UNARY))(a if a.is_floating_point() else a.float()),
    "binary": binary,
    "number": lambda step, a, b: step.pick(NUMBER)(a),
    "comparison": lambda step, a, b: a > 0.1,
    "where": lambda step, a, b: tt.where(a > 0, a, b),
    "cast": lambda step, a, b: a.to(step.pick(DTYPES)),
    "view": lambda step, a, b: step.pick(VIEW)(a),
    "reduction": lambda step, a, b: step.pick(REDUCTION)(a),
    "product": lambda step, a, b: a.float() @ a.float().t(),
    "write": written,
    "row": row_set,
    "softmax": lambda step, a, b: a.float().softmax(-1),
    "cat": lambda step, a, b: tt.cat([a, b], 0),
    "clamp": lambda step, a, b: a.clamp(-1, 1.5),
    "gelu": lambda step, a, b: F.gelu(a),
    "dropout": lambda step, a, b: F.dropout(a, 0.3),
}
OFTEN = ("unary", "unary", "binary", "binary", "view")


class Program:
    """Randomized program; a call runs its steps on three tensors and returns the last four values."""

    def __init__(self, seed: int, large: bool) -> None:
        draw = random.Random(seed)
        self.grad = draw.random() < 0.5
        self.sizes = draw.choice((*SIZES, LARGE) if large else SIZES)
        kinds = (*KINDS, *OFTEN)
        self.steps = [
            Step(draw.choice(kinds), draw.random(), draw.random(), draw.random())
            for _ in range(draw.randint(5, 30))
        ]

    def __call__(self, *inputs: tt.Tensor) -> tuple[tt.Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            self._take(step, values)
        return tuple(values[-4:])

    def _take(self, step: Step, values: list[tt.Tensor]) -> None:
        first, second = (values[int(share * len(values))] for share in (step.first, step.second))
        made = KINDS[step.kind](step, first, second)
        if made.numel() <= MAX_ELEMENTS or made.dim() < 2:
            values.append(made)

    def leave_out_refused(self, inputs: Sequence[tt.Tensor]) -> None:
        """Run it, and drop each step that raises."""
        values, kept = list(inputs), []
        for step in self.steps:
            try:
                self._take(step, values)
                kept.append(step)
            except (RuntimeError, ValueError, NotImplementedError, IndexError, TypeError):
                pass  # not for these shapes and dtypes: the step is not part of the program
        self.steps = kept

    def inputs(self, device: str) -> list[tt.Tensor]:
        return [drawn(*self.sizes, device=device, seed=i, grad=self.grad) for i in range(3)]


def gradients(results: Sequence[Any], inputs: Sequence[tt.Tensor]) -> list[Any] | None:
    """Return the gradients of the results' sum, or None if no result requires a gradient."""
    wanted = [r.float().sum() for r in results if r.requires_grad]
    if not wanted:
        return None
    return list(tt.autograd.grad(sum(wanted), inputs, allow_unused=True))


def compare(seed: int, device: str) -> bool:
    """Run a program both ways, twice. Returns whether it was captured."""
    program = Program(seed, large=device == "cpu")
    program.leave_out_refused(program.inputs(device))
    compiled = tt.compile(program)
    for call in range(2):
        given, own = program.inputs(device), program.inputs(device)
        tt.manual_seed(call)
        expected = program(*given)
        tt.manual_seed(call)
        found = compiled(*own)
        same(found, expected, f"program {seed}: results")
        same(own, given, f"program {seed}: inputs")
        try:
            wanted = gradients(expected, given)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)[:40]):
                gradients(found, own)
            continue
        _compare_gradients(gradients(found, own), wanted, f"program {seed}")
    return graphs(compiled) > 0


def _compare_gradients(found: Any, expected: Any, note: str) -> None:
    assert (found is None) == (expected is None), note
    for mine, theirs in zip(found or (), expected or (), strict=True):
        assert (mine is None) == (theirs is None), note
        if theirs is not None:
            finite = theirs[theirs.isfinite()]
            close(mine, theirs, 1e-5, 1e-5 * (finite.abs().max().item() if finite.numel() else 0), note)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_on_the_cpu(first: int) -> None:
    with np.errstate(all="ignore"):
        captured = [compare(seed, "cpu") for seed in range(first, first + 10)]
    assert sum(captured) >= 6, "most programs can be captured"


@pytest.mark.parametrize("seed", range(100, 108))
def test_on_cuda(seed: int) -> None:
    compare(seed, "cuda")
