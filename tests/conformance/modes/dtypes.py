"""An operator accepts a dtype if PyTorch's does, and refuses it if PyTorch's does.

On the CPU each sample runs in PyTorch itself. On CUDA PyTorch's database lists each operator's dtypes. The
operator must accept every sample of a listed dtype. It must refuse some sample of any other dtype, with an
exception type that PyTorch uses to refuse dtypes.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from ..conversion import OutsideError, copied
from ..operators import functional
from ..outcome import Difference, Outcome, compare_outcomes, outcome
from .mode import Check, Mode, Settings, arguments, ours_of, samples_of, tensors_of

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
)
SAMPLES, MORE_SAMPLES = 3, 20
LARGEST = 2048


def cases(operator: OpInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = functional(operator)
    for dtype in DTYPES:
        check = partial(_check, operator, ours, replace(settings, dtype=dtype))
        yield f"dtypes {str(dtype).removeprefix('torch.')}", check


def _check(operator: OpInfo, ours: Any, settings: Settings) -> None:
    if settings.device != "cuda":
        for sample in _samples(operator, settings, SAMPLES):
            theirs = outcome(partial(_theirs, operator, sample))
            compare_outcomes(theirs, _ours(operator, ours, settings, sample), free=True)
    elif settings.dtype in operator.dtypesIfCUDA:
        for sample in _samples(operator, settings, SAMPLES):
            raised = _ours(operator, ours, settings, sample).raised
            if raised is not None:
                raise Difference(f"PyTorch's CUDA has it; {type(raised).__name__} raised: {raised}"[:200])
    else:
        samples = _samples(operator, settings, MORE_SAMPLES)
        refusals = (_ours(operator, ours, settings, sample).raised for sample in samples)
        refused = next((raised for raised in refusals if raised is not None), None)
        if refused is None:
            raise Difference(f"PyTorch's CUDA does not have it; nothing raised for {len(samples)} samples")
        if not isinstance(refused, RuntimeError | TypeError | ValueError):
            raise Difference(f"{type(refused).__name__} raised: {refused}"[:200])


def _theirs(operator: OpInfo, sample: SampleInput) -> Any:
    positional, named = copied(arguments(sample))
    return operator.op(*positional, **named)


def _ours(operator: OpInfo, ours: Any, settings: Settings, sample: SampleInput) -> Outcome:
    mine, mine_named = ours_of(operator, settings.conversion(), *arguments(sample))
    return outcome(lambda: ours(*mine, **mine_named))


def _samples(operator: OpInfo, settings: Settings, most: int) -> list[SampleInput]:
    """Return the first few small, non-empty samples. Raises OutsideError if there are none."""
    found = list(islice(filter(partial(_fits, settings), _made(operator, settings)), most))
    if not found:
        raise OutsideError("no samples with elements")
    return found


def _made(operator: OpInfo, settings: Settings) -> Iterator[SampleInput]:
    """Yield all samples.

    Raises OutsideError if the database cannot make samples of a dtype.

    An exception in the caller's loop is not converted.
    """
    try:
        yield from samples_of(operator, replace(settings, max_samples=0))  # refusals may come late
    except Exception as error:
        raise OutsideError(f"no samples: {error}") from error


def _fits(settings: Settings, sample: SampleInput) -> bool:
    most = settings.max_numel or LARGEST
    return all(0 < tensor.numel() <= most for tensor in tensors_of([*arguments(sample)]))


DTYPE_SETS = Mode("dtypes", lambda operator, settings: True, cases)
