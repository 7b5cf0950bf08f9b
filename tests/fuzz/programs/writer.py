"""Generator of whole programs."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from . import computations, gradients, views, writes
from .scope import MAX_ELEMENTS, NoOperandError, Scope

SHAPES = ((3, 4), (4, 4), (4,), (2, 3, 4), (1, 4), (3, 1), (), (1, 2, 3, 4), (6,), (2, 2), (0, 4), (5, 3))
DTYPES = (
    ("float32",) * 8
    + ("float64",) * 3
    + ("float16", "bfloat16", "int64", "int64", "int32", "uint8", "bool", "complex64")
)
LARGE_SHAPES = ((200, 300), (300,), (1, 300), (200, 1), (), (40, 5, 300), (300, 200))
MAX_LARGE = 150_000
MANY = 100
KEPT_ERRORS = 0.3
TRIES = 400

Kinds = Mapping[Callable[[Scope], str], int]

EVERYTHING: Kinds = {**computations.KINDS, **views.KINDS, **writes.KINDS, **gradients.KINDS}
WITHOUT_GRADIENTS: Kinds = {**computations.KINDS, **views.KINDS, **writes.KINDS}
WITH_BLOCKS: Kinds = {**WITHOUT_GRADIENTS, gradients.block: 4, gradients.autocast: 2}
PURE: Kinds = {**computations.KINDS, **views.KINDS}


def draw_program(
    rng: random.Random,
    kinds: Kinds = EVERYTHING,
    *,
    grad: float = 0.5,
    errors: float = KEPT_ERRORS,
    least: int = 5,
    most: int = 30,
    large: float = 0.0,
) -> tuple[list[str], list[str]]:
    """Generate a program: the statements that make its inputs, and its body.

    Args:
        rng: what draws.
        kinds: the kinds of statements, and how often each.
        grad: the share of programs whose inputs may require grad.
        errors: the share of statements that raise and are kept.
        least, most: how many statements.
        large: the share of programs over tensors of tens of thousands of elements.
    """
    shapes = LARGE_SHAPES if rng.random() < large else SHAPES
    scope = Scope(rng, MAX_LARGE if shapes is LARGE_SHAPES else MAX_ELEMENTS)
    with_grad = rng.random() < grad
    inputs = []
    for _ in range(rng.randint(2, 4)):
        text = _input(scope, with_grad, shapes)
        scope.execute(text)
        inputs.append(text)
    body: list[str] = []
    draws, weights = list(kinds), list(kinds.values())
    wanted = rng.randint(least, most)
    for _ in range(TRIES):
        if len(body) == wanted:
            break
        before = scope.count
        try:
            text = rng.choices(draws, weights)[0](scope)
        except NoOperandError:
            scope.count = before
            continue
        error = scope.execute(text)
        if error is not None and (isinstance(error, NoOperandError) or rng.random() > errors):
            scope.count = before
            continue
        body.append(text)
    return inputs, body


def _input(scope: Scope, with_grad: bool, shapes: tuple[tuple[int, ...], ...]) -> str:
    rng = scope.rng
    shape, dtype = rng.choice(shapes), rng.choice(DTYPES)
    count = 1
    for size in shape:
        count *= size
    values: list[Any]
    if count > MANY:
        values = []
    elif dtype == "bool":
        values = [rng.random() < 0.5 for _ in range(count)]
    elif dtype in ("int64", "int32"):
        values = [rng.randint(-5, 5) for _ in range(count)]
    elif dtype == "uint8":
        values = [rng.randint(0, 9) for _ in range(count)]
    else:
        values = [rng.randint(-250, 250) / 100 for _ in range(count)]
    if count > MANY:
        step = rng.choice((37, 101, 211))
        made = (
            f"((tt.arange({count}) * {step} % 501 - 250) / 100)"
            if dtype != "uint8"
            else f"(tt.arange({count}) * {step} % 10)"
        )
        text = f"{scope.new()} = {made}.to(tt.{dtype}).reshape({shape})"
    else:
        text = f"{scope.new()} = tt.tensor({values}, dtype=tt.{dtype}).reshape({shape})"
    if (
        with_grad
        and dtype in ("float32", "float64", "float16", "bfloat16", "complex64")
        and rng.random() < 0.7
    ):
        text += ".clone().requires_grad_()"  # no view, whose base would be the tensor before the reshape
    return text
