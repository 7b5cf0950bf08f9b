"""Table of results that differ from PyTorch's only by rounding: each library's error relative to the float64
result.

``python -P -m triten.tests.conformance rounding --dtype bfloat16`` runs the database's samples. Errors are in
units of the dtype's spacing at 1, relative to the exact element and at least to 1. Each entry is the mean
over all elements of the samples that differ by more than PyTorch's own tests allow.
"""

import warnings
from argparse import Namespace

import numpy as np
import torch

from .conversion import OutsideError, array_of, array_of_ours, copied, flat
from .modes.mode import Settings, arguments, ours_of, samples_of
from .nearness import widened
from .operators import MissingError, chosen, functional, title, values_are_free
from .outcome import ValueDifference, compare_values, outcome


def rounding(options: Namespace) -> int:
    """Print a line for each operator with samples that differ. Gives the exit status, 0."""
    warnings.filterwarnings("ignore")
    settings = Settings(getattr(torch, options.dtype or "bfloat16"), "cpu", options.max_samples)
    print(f"{'operator':44} {'differ':>11} {'ours':>9} {'PyTorch':>9}   mean error, {settings.dtype}")
    for operator in chosen(options.ops, settings.dtype):
        if values_are_free(operator):
            continue
        try:
            call = functional(operator)
        except MissingError:
            continue
        errors, differing, asked = [], 0, 0
        for sample in samples_of(operator, settings):
            positional, named = arguments(sample)
            try:
                mine, mine_named = ours_of(operator, settings.conversion(), positional, named)
            except (OutsideError, MissingError):
                continue
            wide, wide_named = widened(copied((positional, named)))
            theirs = outcome(lambda: operator.op(*copied(positional), **copied(named)))  # noqa: B023 - called here
            given = outcome(lambda: call(*mine, **mine_named))  # noqa: B023
            exact = outcome(lambda: operator.op(*wide, **wide_named))  # noqa: B023
            if theirs.raised or given.raised or exact.raised:
                continue
            asked += 1
            try:
                compare_values(theirs.value, given.value)
            except ValueDifference:
                differing += 1
                errors += [
                    _errors(*results, settings.dtype)
                    for results in zip(flat(exact.value), flat(given.value), flat(theirs.value), strict=True)
                    if results[2].dtype is settings.dtype
                ]
        if errors:
            ours, pytorch = np.concatenate(errors, 1).mean(1)
            print(f"{title(operator):44} {f'{differing}/{asked}':>11} {ours:9.3f} {pytorch:9.3f}", flush=True)
    return 0


def _errors(exact: torch.Tensor, ours: object, theirs: torch.Tensor, dtype: torch.dtype) -> np.ndarray:
    """Return both errors of each element that is finite in all results."""
    wide, mine, other = (
        np.ravel(array).astype(np.float64)
        for array in (array_of(exact), array_of_ours(ours), array_of(theirs))
    )
    finite = np.isfinite(wide) & np.isfinite(mine) & np.isfinite(other)
    unit = torch.finfo(dtype).eps * np.maximum(np.abs(wide[finite]), 1.0)
    return np.abs(np.stack([mine, other])[:, finite] - wide[finite]) / unit
