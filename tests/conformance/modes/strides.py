"""Strides, offsets, views: results lie in memory as PyTorch's do, on the host and on a second device alike.

A channels-last image stays channels-last through a network, a transposed operand gives a transposed sum, and a view is
a view on every device. PyTorch is asked on its CPU and on its Meta device; where the two differ, there is nothing to
hold ours to. Strides that no element shows (of dimensions of size 1, of empty tensors) are free.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import triten as tt

from ..conversion import Conversion, OutsideError, copied
from ..operators import MissingError, functional, in_place, ordered
from ..outcome import Difference, Outcome, outcome
from .layouts import LAYOUTS, laid
from .mode import Check, Mode, Settings, arguments, on_meta, samples_of, tensors_of

SAMPLES = 8
LARGEST = 20000
FORMS = ("functional", "in-place", "resized out", "strided out")
WHOLE = {"contiguous": torch.Tensor.contiguous} | LAYOUTS


class Lie(NamedTuple):
    """How one result lies in memory, and what it is a view of."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...]
    offset: int
    is_view: bool
    shares: tuple[int, ...]
    """The tensor arguments over the same storage."""

    def seen(self) -> "Lie":
        """Without what no element shows."""
        empty = 0 in self.shape
        stride = tuple(0 if empty or n == 1 else s for n, s in zip(self.shape, self.stride, strict=True))
        # No caller can reach the base of a view that shares nothing with the arguments, or any element of
        # an empty view.
        return self._replace(
            stride=stride,
            is_view=self.is_view and bool(self.shares) and not empty,
            offset=0 if empty else self.offset,
            shares=() if empty else self.shares,
        )

    def __str__(self) -> str:
        view = f" view of {list(self.shares)}" if self.is_view else ""
        return f"{list(self.shape)} {self.dtype} strides {list(self.stride)} offset {self.offset}{view}"


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    for form in FORMS:
        if form != "functional" and not (
            operator.inplace_variant is not None if form == "in-place" else operator.supports_out
        ):
            continue
        try:
            ours = in_place(operator) if form == "in-place" else functional(operator)
        except MissingError:
            if form == "functional":
                raise
            continue
        for number, sample in enumerate(samples_of(operator, settings)):
            if number >= (settings.max_samples or SAMPLES):
                break
            for label in WHOLE:
                yield f"{form} {label}", partial(_check, operator, ours, settings, sample, form, label)


def _check(
    operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput, form: str, label: str
) -> None:
    positional, named = arguments(sample)
    given = laid(positional, WHOLE[label]), laid(named, WHOLE[label])
    if any(t.numel() > (settings.max_numel or LARGEST) for t in tensors_of(given)):
        raise OutsideError("large")
    if label != "contiguous" and all(t.is_contiguous() for t in tensors_of(given)):
        raise OutsideError("no operand has that layout")
    theirs = operator.inplace_variant if form == "in-place" else operator.op
    want = _theirs(theirs, copied(given), form, "cpu")
    if want.raised is not None:
        raise OutsideError("PyTorch refuses it")
    their_meta = _theirs(theirs, on_meta(given), form, "meta")
    second = "meta" if settings.device == "cpu" else settings.device
    got = _ours(operator, ours, given, form, want.value, "cpu")
    other = _ours(operator, ours, given, form, want.value, second)
    if got.raised is not None:
        raise Difference(f"{type(got.raised).__name__} raised: {' '.join(str(got.raised).split())[:150]}")
    expected, mine = [lie.seen() for lie in want.value], [lie.seen() for lie in got.value]
    agree = their_meta.raised is None and [lie.seen() for lie in their_meta.value] == expected
    if other.raised is not None:
        if their_meta.raised is None or second != "meta":
            text = " ".join(str(other.raised).split())[:150]
            raise Difference(f"on {second}: {type(other.raised).__name__} raised: {text}")
    elif [lie.seen() for lie in other.value] != mine:
        raise Difference(f"{_text(got)} on the host, {_text(other)} on {second}; PyTorch: {_text(want)}")
    if agree and mine != expected:
        raise Difference(f"{_text(want)} expected, {_text(got)} given")


def _theirs(call: Callable[..., Any], given: Any, form: str, device: str) -> Outcome:
    positional, named = given
    if not form.endswith("out"):
        return outcome(lambda: _lies(call(*positional, **named), given, torch.Tensor))
    plain = outcome(lambda: _lies(call(*copied(positional), **copied(named)), given, torch.Tensor))
    if plain.raised is not None:
        return plain
    made = [_output(lie, form, torch, device) for lie in plain.value]
    return outcome(lambda: _into(call, positional, named, made, given, torch.Tensor))


def _ours(
    operator: OpInfo, call: Callable[..., Any], given: Any, form: str, expected: list[Lie], device: str
) -> Outcome:
    convert = Conversion(device)
    positional, named = convert(given[0]), convert(given[1])
    if form != "in-place":
        positional = ordered(operator, positional)
    if not form.endswith("out"):
        return outcome(lambda: _lies(call(*positional, **named), convert(given), tt.Tensor))
    made = [_output(lie, form, tt, device) for lie in expected]
    return outcome(lambda: _into(call, positional, named, made, convert(given), tt.Tensor))


def _into(
    call: Callable[..., Any],
    positional: list[Any],
    named: dict[str, Any],
    out: list[Any],
    given: Any,
    kind: type,
) -> list[Lie]:
    call(*positional, **named, out=out[0] if len(out) == 1 else tuple(out))
    return _lies(out, given, kind)


def _output(lie: Lie, form: str, library: Any, device: str) -> Any:
    """Return an empty output to resize, or a strided one of the right shape whose first dimension is the innermost."""
    dtype, strides, step = getattr(library, lie.dtype), [], 2
    if form == "resized out":
        return library.empty_strided((0,), (1,), dtype=dtype, device=device)
    for size in lie.shape:
        strides.append(step)
        step *= max(size, 1)
    return library.empty_strided(lie.shape, tuple(strides), dtype=dtype, device=device)


def _lies(value: Any, given: Any, kind: type) -> list[Lie]:
    inputs, lies = tensors_of(given, kind), []
    for tensor in tensors_of(value, kind):
        if kind is torch.Tensor and tensor.layout != torch.strided:
            raise OutsideError("sparse")
        lies.append(
            Lie(
                tuple(tensor.shape),
                str(tensor.dtype).rpartition(".")[2],
                tuple(tensor.stride()),
                tensor.storage_offset(),
                tensor._is_view(),
                tuple(n for n, each in enumerate(inputs) if _shares(tensor, each)),
            )
        )
    return lies


def _shares(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch._C._is_alias_of(one, other)
    return one.untyped_storage() is other.untyped_storage()


def _text(result: Outcome) -> str:
    return "; ".join(map(str, result.value[:3]))


STRIDES = Mode(
    "strides", lambda operator, settings: not operator.name.startswith(("resize_", "zero_")), cases
)
