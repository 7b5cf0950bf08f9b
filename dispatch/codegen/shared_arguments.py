"""What the arguments mean that many operators share; an operator's `docs` describe only where they mean more."""

from __future__ import annotations

_TAKES = "of the result's shape, or empty and then resized."
OUT = f"The tensor that takes the result and is returned: {_TAKES}"
OUTS = f"A tuple of tensors that take the results {{names}} and are returned: each {_TAKES}"
OUT_OR_OUTS = f"The tensor that takes the result, or a tuple of those that take {{names}}: each {_TAKES}"

SHARED_ARGUMENTS = {
    "device": "The result's device; by default {device}.",
    "dtype": "The result's dtype; by default {dtype}.",
    "generator": "The source of the random numbers; by default the device's own generator.",
    "layout": "The result's layout, which is `tt.strided`.",
    "memory_format": "The order of the result's dimensions in memory, such as `tt.channels_last`; "
    "`tt.preserve_format` keeps that of `input`.",
    "names": "Names of the dimensions.",
    "non_blocking": "Whether a copy between pinned memory and a GPU may go on after the call has returned.",
    "out": OUT,
    "pin_memory": "Whether the result, on the CPU, lies in pinned memory, from which copies to a GPU may overlap "
    "with other work.",
    "requires_grad": "Whether autograd records operations on the result.",
}
"""By Python name. `device` and `dtype` end in what they are by default, which depends on the operator."""

DIMNAME = "A name of a dimension, for tensors whose dimensions have names."
"""An argument of overloads by names alone."""

SAME_AS_INPUT = "that of `input`"
CHOSEN = {"device": "`tt.get_default_device()`", "dtype": "the default floating dtype"}

__all__ = ["CHOSEN", "DIMNAME", "OUT", "OUTS", "OUT_OR_OUTS", "SAME_AS_INPUT", "SHARED_ARGUMENTS"]
