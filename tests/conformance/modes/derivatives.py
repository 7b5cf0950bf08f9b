"""Derivatives, where PyTorch has them: of reverse mode, of forward mode, and second ones."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import triten as tt
from triten.tests.shared.second_derivatives import NotSmoothError, disagreements

from ..conversion import Conversion, OutsideError, array_of, array_of_ours, copied, flat
from ..operators import functional, values_are_free
from ..outcome import Difference, compare_values
from .mode import Check, Mode, Settings, arguments, ours_of, samples_of

RELATIVE, ABSOLUTE = 1e-5, 1e-6
SINGLE = 1000
"""How many times that where an operand of float32 stands among those of float64."""
SECOND_SAMPLES = 12
LARGEST_HESSIAN = 200
"""Elements by which second derivatives are compared with differences."""
NOT_MAPPED = re.compile(r"vmap: |Batching rule not implemented|fallback path|randomness|vmap over")
"""What `vmap` may refuse, here as in PyTorch: writes to what it does not map, values that are read."""

Derive = Callable[[OpInfo, Any, Settings, list[Any], dict[str, Any]], None]


def _cases(derive: Derive, most: int, operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    for number, sample in enumerate(samples_of(operator, settings, requires_grad=True)):
        if most and number >= (settings.max_samples or most):
            break
        yield "sample", partial(_check, derive, operator, ours, settings, sample)


def _check(derive: Derive, operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput) -> None:
    positional, named = arguments(sample)
    if not any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in flat((positional, named))):
        raise OutsideError("nothing to differentiate by")
    with torch.enable_grad():
        derive(operator, ours, settings, *_leaves((positional, named)))


def _leaves(value: Any) -> Any:
    """Copy the arguments, so that their tensors have no autograd history."""
    return copied(value)


def _first(
    operator: OpInfo, ours: Any, settings: Settings, positional: list[Any], named: dict[str, Any]
) -> None:
    _Pair(operator, ours, settings, positional, named).first()


def _second(
    operator: OpInfo, ours: Any, settings: Settings, positional: list[Any], named: dict[str, Any]
) -> None:
    _Pair(operator, ours, settings, positional, named).second()


class _Pair:
    """One call of both, over leaves that correspond."""

    def __init__(
        self, operator: OpInfo, ours: Any, settings: Settings, positional: list[Any], named: dict[str, Any]
    ) -> None:
        self.convert = settings.conversion(gradients=True)
        self.random = np.random.default_rng(0)
        mine, mine_named = ours_of(operator, self.convert, positional, named)
        theirs = flat(operator.op(*positional, **named))
        given = flat(ours(*mine, **mine_named))
        compare_values(theirs, given, free=True)
        self.outputs = [
            (want, got)
            for want, got in zip(theirs, given, strict=True)
            if isinstance(want, torch.Tensor) and want.requires_grad and want.numel()
        ]
        if not self.outputs or not self.convert.leaves:
            raise OutsideError("nothing to differentiate")
        for number, (_, got) in enumerate(self.outputs):
            if not got.requires_grad:
                raise Difference(f"result {number} does not require grad")

    def cotangents(self, tensors: list[torch.Tensor], *, requires_grad: bool) -> tuple[list[Any], list[Any]]:
        """Return the same random cotangents for both libraries."""
        theirs, ours = [], []
        for tensor in tensors:
            number = _random(self.random, tensor)
            theirs.append(number.requires_grad_(requires_grad))
            ours.append(self.convert(number.detach()).requires_grad_(requires_grad))
        return theirs, ours

    def first(self, *, again: bool = False) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        wants, gots = ([pair[side] for pair in self.outputs] for side in (0, 1))
        leaves, mine = ([pair[side] for pair in self.convert.leaves] for side in (0, 1))
        seeds, my_seeds = self.cotangents(wants, requires_grad=again)
        theirs = _gradients(wants, leaves, seeds, allow_unused=True, create_graph=again)
        given = tt.autograd.grad(gots, mine, my_seeds, allow_unused=True, create_graph=again)
        _compare_gradients(theirs, given, "gradient")
        return list(theirs), list(given), [*leaves, *seeds], [*mine, *my_seeds]

    def second(self) -> None:
        theirs, given, leaves, mine = self.first(again=True)
        both = [
            (want, got)
            for want, got in zip(theirs, given, strict=True)
            if want is not None and want.requires_grad and want.numel()
        ]
        if not both:
            raise OutsideError("a constant gradient")
        for number, (_, got) in enumerate(both):
            if got is None or not got.requires_grad:
                raise Difference(f"gradient {number} has no graph of its own")
        seeds, my_seeds = self.cotangents([want for want, _ in both], requires_grad=False)
        _compare_gradients(
            _gradients([want for want, _ in both], leaves, seeds, allow_unused=True),
            tt.autograd.grad([got for _, got in both], mine, my_seeds, allow_unused=True),
            "second gradient",
        )


def _gradients(*args: Any, **options: bool) -> Any:
    """Return PyTorch's gradients. Raises OutsideError if it lacks a derivative."""
    try:
        return torch.autograd.grad(*args, **options)
    except RuntimeError as error:
        if "is not implemented" not in str(error):
            raise
        raise OutsideError(str(error)) from error


def _forward(
    operator: OpInfo, ours: Any, settings: Settings, positional: list[Any], named: dict[str, Any]
) -> None:
    convert = Conversion(settings.device, gradients=True, largest=settings.max_numel)
    mine, mine_named = ours_of(operator, convert, positional, named)
    random = np.random.default_rng(0)
    seeds = [_random(random, theirs) for theirs, _ in convert.leaves]
    with torch.autograd.forward_ad.dual_level():
        duals = {
            id(leaf): torch.autograd.forward_ad.make_dual(leaf.detach(), seed)
            for (leaf, _), seed in zip(convert.leaves, seeds, strict=True)
        }
        positional, named = _replaced((positional, named), duals)
        results = flat(operator.op(*positional, **named))
        theirs = [_tangent(torch, result) for result in results]
    with tt.autograd.forward_ad.dual_level():
        duals = {
            id(leaf): tt.autograd.forward_ad.make_dual(leaf.detach(), convert(seed))
            for (_, leaf), seed in zip(convert.leaves, seeds, strict=True)
        }
        mine, mine_named = _replaced((mine, mine_named), duals)
        given = [_tangent(tt, result) for result in flat(ours(*mine, **mine_named))]
    _compare_gradients(theirs, given, "tangent")


def _random(random: np.random.Generator, tensor: torch.Tensor) -> torch.Tensor:
    """Return normal random numbers of a tensor's shape and dtype; complex ones have both parts."""
    shape = tuple(tensor.shape)
    values = torch.from_numpy(np.asarray(random.standard_normal(shape)))
    if tensor.dtype.is_complex:
        values = torch.complex(values, torch.from_numpy(np.asarray(random.standard_normal(shape))))
    return values.to(tensor.dtype)


def _tangent(module: Any, result: Any) -> Any:
    return (
        module.autograd.forward_ad.unpack_dual(result).tangent if isinstance(result, module.Tensor) else None
    )


def _replaced(value: Any, duals: dict[int, Any]) -> Any:
    if id(value) in duals:
        return duals[id(value)]
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_replaced(item, duals) for item in value)
    if isinstance(value, dict):
        return {name: _replaced(item, duals) for name, item in value.items()}
    return value


def _compare_gradients(theirs: Any, ours: Any, what: str) -> None:
    for number, (want, got) in enumerate(zip(theirs, ours, strict=True)):
        if want is None or not want.numel():
            if got is not None and np.any(array_of_ours(got)):
                raise Difference(f"{what} {number}: none expected")
            continue
        if got is None:
            if torch.any(want != 0):
                raise Difference(f"{what} {number}: missing")
            continue
        exact, mine = array_of(want), array_of_ours(got)
        if exact.shape != mine.shape:
            raise Difference(f"{what} {number}: shape {exact.shape} expected, {mine.shape} given")
        with np.errstate(all="ignore"):
            factor = SINGLE if exact.dtype.char in "fF" else 1
            if not np.allclose(mine, exact, RELATIVE * factor, ABSOLUTE * factor, equal_nan=True):
                worst = np.nanmax(np.abs(mine - exact))
                raise Difference(f"{what} {number}: values differ by up to {worst:.3g}")


def _differentiable(operator: OpInfo) -> bool:
    return operator.supports_autograd and not values_are_free(operator) and not operator.name.endswith("_")


def _second_order(
    operator: OpInfo, ours: Any, settings: Settings, positional: list[Any], named: dict[str, Any]
) -> None:
    """Compare every order of modes with finite differences; PyTorch, which loses terms in some, is not the oracle."""
    convert = settings.conversion(gradients=True)
    mine, mine_named = ours_of(operator, convert, positional, named)
    leaves = [leaf for _, leaf in convert.leaves if leaf.dtype is tt.float64]
    if not leaves or sum(leaf.numel() for leaf in leaves) > LARGEST_HESSIAN:
        raise OutsideError("nothing to differentiate by, or too much")
    places = [id(leaf) for leaf in leaves]

    def function(*values: Any) -> Any:
        given, given_named = _replaced((mine, mine_named), dict(zip(places, values, strict=True)))
        # Gradients of symmetric or triangular matrices are defined only for changes that keep that
        # structure.
        return tuple(flat(operator.gradcheck_wrapper(ours, *given, **given_named)))

    try:
        for order, found in disagreements(function, leaves):
            if not NOT_MAPPED.search(found):
                raise Difference(f"{order}: {' '.join(found.split())[:150]}")
    except NotSmoothError as error:
        raise OutsideError("not smooth here") from error


GRADIENT = Mode("gradient", lambda operator, settings: _differentiable(operator), partial(_cases, _first, 0))
FORWARD_AD = Mode(
    "forward_ad",
    lambda operator, settings: _differentiable(operator) and operator.supports_forward_ad,
    partial(_cases, _forward, SECOND_SAMPLES),
)
SECOND_ORDER = Mode(
    "second_order",
    lambda operator, settings: (
        _differentiable(operator) and operator.supports_gradgrad and operator.supports_forward_ad
    ),
    partial(_cases, _second_order, SECOND_SAMPLES),
)
GRADGRAD = Mode(
    "gradgrad",
    lambda operator, settings: _differentiable(operator) and operator.supports_gradgrad,
    partial(_cases, _second, SECOND_SAMPLES),
)
