"""``out=``: of the result's own shape and dtype, or not, strided, overlapping, asked for gradients."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ..conversion import OutsideError, copied, flat
from ..operators import functional, values_are_free
from ..outcome import Difference, Outcome, compare_outcomes, compare_values, outcome
from .errors import expect_untouched, snapshot
from .mode import Check, Mode, Settings, arguments, ours_of, samples_of

SAMPLES = 12


def _fitting(result: torch.Tensor) -> torch.Tensor:
    return _garbage(result.shape, result)


def _garbage(shape: Any, like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.full(tuple(shape), 77 if like.dtype != torch.bool else 1, dtype=dtype or like.dtype)


def _larger(result: torch.Tensor) -> torch.Tensor:
    return _garbage((*result.shape, 2), result)


def _empty(result: torch.Tensor) -> torch.Tensor:
    return _garbage((0,), result)


def _transposed(result: torch.Tensor) -> torch.Tensor:
    return _garbage(reversed(result.shape), result).permute(tuple(reversed(range(result.dim()))))


def _stepped(result: torch.Tensor) -> torch.Tensor:
    if result.dim() == 0:
        return _garbage((3,), result)[1]
    return _garbage((*result.shape[:-1], 2 * result.shape[-1] + 1), result)[..., 1::2]


def _integers(result: torch.Tensor) -> torch.Tensor:
    return _garbage(result.shape, result, torch.int32)


def _wide(result: torch.Tensor) -> torch.Tensor:
    return _garbage(result.shape, result, torch.complex128 if result.is_complex() else torch.float64)


def _expanded(result: torch.Tensor) -> torch.Tensor:
    if result.numel() < 2:
        raise OutsideError("too small to overlap itself")
    # Over memory for every element: some of PyTorch's kernels write that much without a look at the strides.
    return _garbage((result.numel(),), result)[:1].expand(result.shape)


def _on_meta(result: torch.Tensor) -> torch.Tensor:
    return torch.empty(result.shape, dtype=result.dtype, device="meta")


# Replacements for each result.
OUTPUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "fitting": _fitting,
    "larger": _larger,
    "empty": _empty,
    "transposed": _transposed,
    "stepped": _stepped,
    "int32": _integers,
    "wide": _wide,
    "expanded": _expanded,
    "on meta": _on_meta,
}
# The layout of an output that was resized is left to the operator.
RESIZED = {"larger", "empty"}
# PyTorch's result is not defined where it does not refuse these.
UNDEFINED = {"expanded", "shifted input", "on meta", "requires grad"}

# PyTorch 2.13 writes beyond the output's memory.
CORRUPTING = {("lu_unpack", "transposed")}


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    for number, sample in enumerate(samples_of(operator, settings)):
        if number >= (settings.max_samples or SAMPLES):
            break
        positional, named = copied(arguments(sample))
        named.pop("out", None)
        plain = outcome(lambda: operator.op(*copied(positional), **copied(named)))  # noqa: B023 - called here
        for label in (*OUTPUTS, "shifted input", "requires grad"):
            if (operator.name, label) in CORRUPTING:
                continue
            if label != "on meta" or settings.device == "cpu":
                yield f"out {label}", partial(_check, operator, ours, settings, sample, plain, label)


def _check(
    operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput, plain: Outcome, label: str
) -> None:
    positional, named = copied(arguments(sample))
    named.pop("out", None)
    if plain.raised is not None or not all(isinstance(leaf, torch.Tensor) for leaf in flat(plain.value)):
        raise OutsideError("no tensors to write to")
    if label == "requires grad":
        positional = [_asking(value) for value in positional]
        outputs = [_fitting(result) for result in flat(plain.value)]
    elif label == "shifted input":
        outputs, positional = _shifted(flat(plain.value), positional)
    else:
        outputs = [OUTPUTS[label](result) for result in flat(plain.value)]
    single = isinstance(plain.value, torch.Tensor)
    container = list if isinstance(plain.value, list) else tuple
    convert = settings.conversion(gradients=label == "requires grad")
    mine, mine_named = ours_of(operator, convert, positional, named)
    mine_outputs = [convert(output) for output in outputs]
    before = snapshot((mine, mine_named, mine_outputs))
    theirs = outcome(
        lambda: operator.op(*positional, **named, out=outputs[0] if single else container(outputs))
    )
    if theirs.raised is not None and "failed to match any schema" in str(theirs.raised):
        raise OutsideError("the database calls it by a schema, which names its outputs")
    if theirs.raised is None and label in UNDEFINED:
        raise OutsideError("PyTorch does not refuse")
    given = outcome(
        lambda: ours(*mine, **mine_named, out=mine_outputs[0] if single else container(mine_outputs))
    )
    free = values_are_free(operator)
    if label == "on meta" and isinstance(given.raised, RuntimeError):
        return expect_untouched(
            before, (mine, mine_named, mine_outputs)
        )  # theirs may lack only its Meta kernel
    compare_outcomes(theirs, given, free=free, meta=settings.meta, computed=settings.dtype)
    if theirs.raised is not None:
        return expect_untouched(before, (mine, mine_named, mine_outputs))
    compare_values(outputs, mine_outputs, free=free, meta=settings.meta, computed=settings.dtype, what="out")
    returned = mine_outputs if theirs.value is None else flat(given.value)
    for want, got, given_back in zip(outputs, mine_outputs, returned, strict=True):
        if given_back is not got:
            raise Difference("what is returned is not the tensor given as out=")
        if label not in RESIZED and want.numel() and tuple(want.stride()) != tuple(got.stride()):
            raise Difference(f"out: strides {want.stride()} expected, {tuple(got.stride())} given")


def _asking(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.detach().requires_grad_()
    return value


def _shifted(results: list[torch.Tensor], positional: list[Any]) -> tuple[list[torch.Tensor], list[Any]]:
    """Return an output that overlaps an input of its shape and dtype, one element further on."""
    for place, value in enumerate(positional):
        if (
            isinstance(value, torch.Tensor)
            and value.numel() > 1
            and value.is_contiguous()
            and len(results) == 1
        ):
            result = results[0]
            if value.shape == result.shape and value.dtype == result.dtype:
                memory = torch.cat([value.reshape(-1), value.new_zeros(1)])
                rest = [memory[:-1].view(value.shape) if n == place else v for n, v in enumerate(positional)]
                return [memory[1:].view(value.shape)], rest
    raise OutsideError("no input of the result's shape")


OUT = Mode("out", lambda operator, settings: operator.supports_out, cases)
