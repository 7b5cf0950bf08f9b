"""Each configuration of PyTorch's OptimizerInfo database steps as PyTorch's optimizer does from the same
start.

The checks are: some steps with every configuration, plain and with every implementation that the database
lists; the state, its names, dtypes and values; `state_dict` taken in the middle and loaded into a fresh
optimizer, and PyTorch's loaded into triten's; parameter groups with their own options; `repr`; the effect on
the CPU of each option that it refuses; refusals.
"""

import re
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, OptimizerInfo, optim_db

import triten as tt

from ..conversion import Conversion, OutsideError, flat
from ..operators import MissingError
from ..outcome import Difference, Outcome, compare_outcomes, compare_values, outcome, refusal_differs
from .mode import Check, Mode, Settings

STEPS = 6
FLAGS = ("foreach", "fused", "differentiable", "capturable", "maximize")
COMPUTED = {"Muon": torch.bfloat16}
"""The dtype that an optimizer computes in, whatever its parameters have."""
SHAPES = ((3, 4), (4,), (2, 3, 2), ())


def chosen(pattern: str, dtype: torch.dtype | None) -> Iterator[OptimizerInfo]:
    """Yield the database's optimizers whose names match `pattern`, except those only for sparse gradients."""
    for info in optim_db:
        if re.search(pattern, info.name) and not info.only_supports_sparse_grads:
            yield info


def cases(info: OptimizerInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = getattr(tt.optim, info.name, None)
    if ours is None:
        raise MissingError(info.name)
    for sample in settings.some(info.optim_inputs_func(device="cpu", dtype=settings.dtype)):
        for extra in ({}, *({flag: True} for flag in FLAGS), *({flag: False} for flag in FLAGS)):
            if extra.keys() & sample.kwargs.keys():
                continue
            pair = partial(Pair, info, ours, settings, {**sample.kwargs, **extra})
            yield "optimizers steps", lambda pair=pair: pair().stepped()
        pair = partial(Pair, info, ours, settings, dict(sample.kwargs))
        yield "optimizers state", lambda pair=pair: pair().resumed()
        yield "optimizers across", lambda pair=pair: pair().from_theirs()
        yield "optimizers groups", lambda pair=pair: pair(groups=True).stepped()
        yield "optimizers repr", lambda pair=pair: pair().described()
        if info.supports_complex:
            complex_settings = Settings(torch.complex128, settings.device)
            pair = partial(Pair, info, ours, complex_settings, dict(sample.kwargs))
            yield "optimizers complex", lambda pair=pair: pair().stepped()
    for refused in info.optim_error_inputs_func(device="cpu", dtype=settings.dtype):
        yield "optimizers refusal", partial(_refusal, info, ours, settings, refused)


class Pair:
    """One optimizer of both over the same parameters; the first of them is made, or both refuse."""

    def __init__(
        self,
        info: OptimizerInfo,
        ours: Any,
        settings: Settings,
        options: dict[str, Any],
        groups: bool = False,
    ) -> None:
        self.info, self.kind, self.settings, self.options = info, ours, settings, options
        self.convert = settings.conversion()
        torch.manual_seed(0)
        shapes = [shape for shape in SHAPES if info.name != "Muon" or len(shape) == 2]
        self.starts = [torch.randn(shape, dtype=settings.dtype) for shape in shapes]
        self.theirs = [torch.nn.Parameter(start.clone()) for start in self.starts]
        self.ours = [tt.nn.Parameter(self.convert(start.clone())) for start in self.starts]
        self.grouped = groups and info.supports_param_groups
        if groups and not self.grouped:
            raise OutsideError("it has one group")
        self.made_theirs = outcome(lambda: info.optim_cls(self._groups(self.theirs), **self._copied()))
        self.made_ours = outcome(lambda: self._fresh(self.ours))

    def _copied(self) -> dict[str, Any]:
        return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in self.options.items()}

    def _fresh(self, parameters: list[Any]) -> Any:
        return self.kind(self._groups(parameters), **self.convert(self._copied()))

    def _groups(self, parameters: list[Any]) -> list[Any]:
        if not self.grouped:
            return list(parameters)
        return [{"params": parameters[:1], "lr": 0.05}, {"params": parameters[1:]}]

    def both_made(self) -> bool:
        """Return True if both optimizers exist, False if both libraries refused. Raises Difference if one refused."""
        compare_outcomes(_plain(self.made_theirs), _plain(self.made_ours))
        return self.made_theirs.raised is None

    def stepped(self) -> None:
        """Compare parameters and state after some steps."""
        if self.both_made():
            theirs, ours = self.made_theirs.value, self.made_ours.value
            for step in range(STEPS):
                results = self.step(theirs, ours, step)
                compare_outcomes(*results)
                if results[0].raised is not None:
                    return
            self.compare(theirs, ours)

    def step(self, theirs: Any, ours: Any, number: int) -> tuple[Outcome, Outcome]:
        """Step both optimizers with the same gradients."""
        if self.info.step_requires_closure:
            return (
                outcome(lambda: theirs.step(lambda: _loss(torch, theirs, self.theirs))),
                outcome(lambda: ours.step(lambda: _loss(tt, ours, self.ours))),
            )
        torch.manual_seed(number)
        for want, got in zip(self.theirs, self.ours, strict=True):
            gradient = torch.randn_like(want.detach())
            want.grad, got.grad = gradient, self.convert(gradient.clone())
        results = outcome(theirs.step), outcome(ours.step)
        for parameters, plain in ((self.theirs, torch), (self.ours, tt)):
            # A differentiable step leaves parameters that have a history.
            with plain.no_grad():
                for parameter in parameters:
                    parameter.grad = None
        return results

    def compare(self, theirs: Any, ours: Any) -> None:
        computed = COMPUTED.get(self.info.name)
        compare_values(self.theirs, self.ours, what="parameter", computed=computed)
        wanted, given = theirs.state_dict(), ours.state_dict()
        for want, got in zip(wanted["param_groups"], given["param_groups"], strict=True):
            if list(want) != list(got):
                raise Difference(f"group {list(want)} expected, {list(got)} given")
        if wanted["state"].keys() != given["state"].keys():
            raise Difference(f"states of {list(wanted['state'])} expected, of {list(given['state'])} given")
        for number, state in wanted["state"].items():
            mine = given["state"][number]
            if state.keys() != mine.keys():
                raise Difference(f"state {list(state)} expected, {list(mine)} given")
            for name, value in state.items():
                compare_values(*map(_numbers, (value, mine[name])), what=f"state {name}")

    def resumed(self) -> None:
        """Check that a fresh optimizer continues from a loaded `state_dict`."""
        if not self.both_made():
            return
        theirs, ours = self.made_theirs.value, self.made_ours.value
        for step in range(2 * STEPS):
            if step == STEPS:
                states = theirs.state_dict(), ours.state_dict()
                theirs = self.info.optim_cls(self._groups(self.theirs), **self._copied())
                ours = self._fresh(self.ours)
                theirs.load_state_dict(states[0])
                ours.load_state_dict(states[1])
            compare_outcomes(*self.step(theirs, ours, step))
        self.compare(theirs, ours)

    def from_theirs(self) -> None:
        """Check that triten's optimizer continues from the state of PyTorch's."""
        if not self.both_made():
            return
        theirs, ours = self.made_theirs.value, self.made_ours.value
        for step in range(STEPS):
            compare_outcomes(*self.step(theirs, ours, step))
        fresh, state = self._fresh(self.ours), theirs.state_dict()
        fresh.load_state_dict(self.convert(state))
        theirs = self.info.optim_cls(self._groups(self.theirs), **self._copied())
        theirs.load_state_dict(state)
        for step in range(STEPS, 2 * STEPS):
            compare_outcomes(*self.step(theirs, fresh, step))
        self.compare(theirs, fresh)

    def described(self) -> None:
        """Compare `repr` and `defaults`."""
        if not self.both_made():
            return
        theirs, ours = self.made_theirs.value, self.made_ours.value
        if list(theirs.defaults) != list(ours.defaults):
            raise Difference(f"defaults {list(theirs.defaults)} expected, {list(ours.defaults)} given")
        for name, value in theirs.defaults.items():
            if not isinstance(value, torch.Tensor | tuple) and value != ours.defaults[name]:
                raise Difference(f"default {name}: {value} expected, {ours.defaults[name]} given")
        if repr(theirs) != repr(ours):
            raise Difference(f"{theirs!r} expected, {ours!r} given")


def _numbers(value: Any) -> Any:
    """Return a state's leaves with 0-dimensional tensors as Python numbers."""
    if not isinstance(value, torch.Tensor | tt.Tensor) or value.ndim == 0:
        leaves = [leaf for leaf in flat(value) if leaf is not None]
        return [leaf.item() if hasattr(leaf, "item") and leaf.ndim == 0 else leaf for leaf in leaves]
    return value


def _plain(made: Outcome) -> Outcome:
    """Return the outcome without its value."""
    return Outcome(None, made.raised)


def _loss(library: Any, optimizer: Any, parameters: list[Any]) -> Any:
    optimizer.zero_grad()
    loss = sum(
        ((parameter - 0.5).abs() ** 4 + (parameter.abs() ** 2) * (number + 1)).sum()
        for number, parameter in enumerate(parameters)
    )
    loss.backward()
    return loss


def _refusal(info: OptimizerInfo, ours: Any, settings: Settings, refused: Any) -> None:
    sample = refused.optimizer_error_input
    convert = _Parameters(settings.device)
    params = sample.params
    if params is None:
        params = [torch.nn.Parameter(torch.randn(2, 3, dtype=settings.dtype))]

    def made(kind: Any, parameters: Any, options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer = kind(parameters, **options)
            if refused.error_on is OptimizerErrorEnum.STEP_ERROR:
                optimizer.step()
        return optimizer

    mine, options = convert(params), convert(sample.kwargs)
    theirs = outcome(lambda: made(info.optim_cls, params, sample.kwargs))
    given = outcome(lambda: made(ours, mine, options))
    if theirs.raised is None:
        raise OutsideError("this build of PyTorch takes it")
    if given.raised is None:
        raise Difference(f"{type(theirs.raised).__name__} expected ({theirs.raised}), nothing raised")
    if differs := refusal_differs(theirs.raised, given.raised):
        raise Difference(differs)


class _Parameters(Conversion):
    """A conversion that knows one parameter given twice for the same."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._made: dict[int, Any] = {}

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if not tensor.requires_grad and tensor.grad is None:
            return super()._tensor(tensor)
        if id(tensor) not in self._made:
            self._made[id(tensor)] = made = tt.nn.Parameter(super()._tensor(tensor.detach()))
            if tensor.grad is not None:
                made.grad = super()._tensor(tensor.grad)
        return self._made[id(tensor)]


OPTIMIZERS = Mode("optimizers", lambda info, settings: True, cases, chosen)
