"""Draws whole programs."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from . import computations, gradients, views, writes
from .scope import NoOperandError, Scope

SHAPES = ((3, 4), (4, 4), (4,), (2, 3, 4), (1, 4), (3, 1), (), (1, 2, 3, 4), (6,), (2, 2), (0, 4), (5, 3))
DTYPES = ("float32",) * 8 + ("float64",) * 3 + ("float16", "bfloat16", "int64", "int64", "int32", "uint8", "bool", "complex64")
KEPT_ERRORS = 0.3
TRIES = 400

Kinds = Mapping[Callable[[Scope], str], int]

EVERYTHING: Kinds = {**computations.KINDS, **views.KINDS, **writes.KINDS, **gradients.KINDS}
WITHOUT_GRADIENTS: Kinds = {**computations.KINDS, **views.KINDS, **writes.KINDS}
PURE: Kinds = {**computations.KINDS, **views.KINDS}


def draw_program(
    rng: random.Random,
    kinds: Kinds = EVERYTHING,
    *,
    grad: float = 0.5,
    errors: float = KEPT_ERRORS,
    least: int = 5,
    most: int = 30,
) -> tuple[list[str], list[str]]:
    """The statements that make the inputs, and those after them.

    Args:
        rng: what draws.
        kinds: the kinds of statements, and how often each.
        grad: the share of programs whose inputs may require grad.
        errors: the share of statements that raise and are kept.
        least, most: how many statements.
    """
    scope = Scope(rng)
    with_grad = rng.random() < grad
    inputs = []
    for _ in range(rng.randint(2, 4)):
        text = _input(scope, with_grad)
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


def _input(scope: Scope, with_grad: bool) -> str:
    rng = scope.rng
    shape, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
    count = 1
    for size in shape:
        count *= size
    values: list[Any]
    if dtype == "bool":
        values = [rng.random() < 0.5 for _ in range(count)]
    elif dtype in ("int64", "int32"):
        values = [rng.randint(-5, 5) for _ in range(count)]
    elif dtype == "uint8":
        values = [rng.randint(0, 9) for _ in range(count)]
    else:
        values = [rng.randint(-250, 250) / 100 for _ in range(count)]
    text = f"{scope.new()} = tt.tensor({values}, dtype=tt.{dtype}).reshape({shape})"
    if with_grad and dtype in ("float32", "float64", "float16", "bfloat16", "complex64") and rng.random() < 0.7:
        text += ".requires_grad_()"
    return text
