"""Programs as functions under `tt.func`: vmap, jvp, grad, graphs, functionalize, beside what each stands for."""

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt

from ..campaign import AGREED, OUTSIDE, Case, Finding, Outcome
from ..programs.execution import array
from ..programs.function import Function
from ..programs.judgement import Difference, in_double, near
from ..programs.writer import WITHOUT_GRADIENTS, draw_program
from .programs import ProgramCampaign
from .programs_compiled import what_runs

REFUSALS = (RuntimeError, NotImplementedError)
"""What a transform may say of a program that it does not take: reads of values, shapes that depend on them."""


UNSEEN = (".data", "as_strided")
"""What backward does not see, as in PyTorch: writes behind its back, and what `as_strided` reads outside of a view."""


class TransformedPrograms(ProgramCampaign):
    """Each transform of one program, in float64."""

    name = "programs_transformed"

    def draw(self, rng: random.Random) -> Case:
        """Generate a program without errors, over inputs that require no gradients."""
        inputs, body = draw_program(rng, WITHOUT_GRADIENTS, grad=0.0, errors=0.0, most=12)
        return {"inputs": inputs, "body": body}

    def run(self, case: Case) -> Outcome:
        """Compare each transform with what it stands for."""
        before = tt.get_default_dtype()
        tt.set_default_dtype(tt.float64)
        try:
            return self._checked(case)
        finally:
            tt.set_default_dtype(before)

    def _checked(self, case: Case) -> Outcome:
        inputs = in_double(case["inputs"])
        body = what_runs(inputs, in_double(case["body"]))
        function = Function.of(inputs, body)
        arguments = function.arguments()
        places = [i for i, value in enumerate(arguments.values()) if value.is_floating_point()]
        if not places:
            return OUTSIDE
        place = places[0]

        def of_one(x: tt.Tensor) -> tuple[tt.Tensor, ...]:
            given = list(function.arguments().values())
            given[place] = x.clone()
            made = function.call(*given)
            return tuple(v for v in made.values() if isinstance(v, tt.Tensor) and v.is_floating_point())

        x = list(arguments.values())[place]
        taken = 0
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for name, check in CHECKS.items():
                if name in ("jvp", "compiled") and any(text in line for line in body for text in UNSEEN):
                    continue
                try:
                    check(of_one, x)
                    taken += 1
                except Difference as difference:
                    return Finding(f"{difference.kind} of {name}", str(difference))
                except REFUSALS:
                    continue
                except IndexError as error:
                    if name != "vmap" or not str(error).startswith("median(): Expected reduction dim"):
                        raise  # PyTorch refuses it, too: the median of an empty example
        return AGREED if taken else OUTSIDE


Computes = Callable[[tt.Tensor], tuple[tt.Tensor, ...]]


def _alike(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    if len(found) != len(expected):
        raise Difference("wrong type", f"{len(found)} results, not {len(expected)}")
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            raise Difference(
                "wrong type",
                f"result {number}: {mine.dtype} {tuple(mine.shape)}, not {theirs.dtype} {tuple(theirs.shape)}",
            )
        near(f"result {number}", array(mine), array(theirs), str(theirs.dtype).partition(".")[2])


def check_vmap(function: Computes, x: tt.Tensor) -> None:
    """Compare `vmap` over a batch with calls on its examples."""
    # Use as many examples as rows, so that a batching rule that confuses the two dimensions fails.
    count = min(x.shape[0], 4) if x.dim() else 3
    batch = tt.stack([x * (0.5 + 0.5 / (i + 1)) + 0.25 * i for i in range(max(count, 1))])
    found = tt.vmap(function)(batch)
    each = [function(one) for one in batch.unbind(0)]
    _alike(found, tuple(tt.stack(parts) for parts in zip(*each, strict=True)))


def _smooth(function: Computes) -> Callable[[tt.Tensor], tt.Tensor]:
    def total(x: tt.Tensor) -> tt.Tensor:
        parts = [v.double().sum() for v in function(x)]
        return sum(parts[1:], parts[0]) if parts else (x * 0).sum()

    return total


def check_grad(function: Computes, x: tt.Tensor) -> None:
    """Compare `tt.func.grad` with backward."""
    total = _smooth(function)
    found = tt.func.grad(total)(x)
    leaf = x.clone().requires_grad_()
    value = total(leaf)
    expected = tt.autograd.grad(value, leaf, materialize_grads=True)[0] if value.requires_grad else x * 0
    _alike((found,), (expected,))


def check_jvp(function: Computes, x: tt.Tensor) -> None:
    """Compare `tt.func.jvp` with `tt.func.vjp`: both give one directional derivative."""
    total = _smooth(function)
    direction = (x * 3 + 1).sin()
    value, forward = tt.func.jvp(total, (x,), (direction,))
    again, backward = tt.func.vjp(total, x)
    _alike((value,), (again,))
    if not np.isfinite(array(value)).all():
        return  # the two multiply in another order, and zero by infinity is undefined in one of them alone
    (gradient,) = backward(tt.ones_like(again))
    other = (gradient * direction).sum()
    if bool(forward.isnan()) != bool(other.isnan()):
        return  # an undefined derivative times zero, which one of the two does not multiply
    _alike((forward,), (other,))


def check_compiled(function: Computes, x: tt.Tensor) -> None:
    """Compare transforms of the compiled program with those of the program."""
    total = _smooth(function)
    compiled = tt.compile(total)
    direction = (x * 3 + 1).sin()
    leaf = x.clone().requires_grad_()
    value = compiled(leaf)
    if not np.isfinite(array(value.detach())).all():
        return
    if value.requires_grad:
        rows = tt.stack([tt.ones_like(value), 2 * tt.ones_like(value)])
        found = tt.autograd.grad(value, leaf, rows, is_grads_batched=True, materialize_grads=True)[0]
        expected = tt.func.grad(total)(x)
        _alike((found,), (tt.stack([expected, 2 * expected]),))
    _alike(tt.func.jvp(compiled, (x,), (direction,)), tt.func.jvp(total, (x,), (direction,)))
    _alike((tt.func.grad(compiled)(x),), (tt.func.grad(total)(x),))
    both = tt.stack([x, x * 0.5])
    _alike((tt.vmap(compiled)(both),), (tt.vmap(total)(both),))


def check_functionalize(function: Computes, x: tt.Tensor) -> None:
    """Compare a functionalized program with the original."""
    _alike(tt.func.functionalize(function)(x), function(x))


def check_graph(function: Computes, x: tt.Tensor) -> None:
    """Compare the program with its operator graph, before and after functionalization."""
    expected = function(x)
    _alike(tt.func.make_graph(function)(x)(x), expected)
    _alike(tt.func.make_graph(tt.func.functionalize(function))(x)(x), expected)


CHECKS: dict[str, Callable[[Computes, tt.Tensor], None]] = {
    "vmap": check_vmap,
    "grad": check_grad,
    "jvp": check_jvp,
    "compiled": check_compiled,
    "functionalize": check_functionalize,
    "graph": check_graph,
}
