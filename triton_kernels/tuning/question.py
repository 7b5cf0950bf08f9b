"""Key of a configuration lookup at planning time: device, dtype and class of shapes."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...runtime.cuda.driver import driver
from ...runtime.device import device as Device
from ..budget import Configuration, declaration_of

OCTAVE = 4
"""Number of size classes from one power of two to the next."""
DIVISOR = 16
"""A size that it divides is in a class of its own: its lines are whole vectors, and masks fall away."""


class Question(NamedTuple):
    """Key of an answer. `kernel` is ``module:function``, `shape` a class of shapes (`shape_class`)."""

    kernel: str
    device: Device
    dtype: str
    shape: str

    def __str__(self) -> str:
        return f"{self.kernel.rpartition(':')[2]} {self.dtype} at {self.shape or 'any size'} on {self.device}"


def shape_class(shape: tuple[int, ...]) -> str:
    """Return the class of a shape: each size to a quarter of an octave, and whether 16 divides it.

    The name of a class is its middle, ``2 ** (round(4 log2 size) / 4)``, rounded. Sizes up to 8 have a class
    each, and larger ones share it with those within 9 %. 0 is a class of its own.

    Example:
        >>> from triten.triton_kernels.tuning.question import shape_class
        >>> shape_class((4096, 4095, 7, 0)), shape_class((4400, 4096))
        ('4096:16 4096 7 0', '4096:16 4096:16')
    """
    return " ".join([_size_class(size) for size in shape])


def _size_class(size: int) -> str:
    if size < 1:
        return "0"
    middle = round(2 ** (round(OCTAVE * math.log2(size)) / OCTAVE))
    return f"{middle}:{DIVISOR}" if size % DIVISOR == 0 else str(middle)


def capability_of(device: Device) -> int:
    """Major times 10 plus minor."""
    properties = driver().properties(device.resolved_index)
    return properties.capability


def is_same(a: Configuration, b: Configuration) -> bool:
    """Return True if two configurations make the same code, whatever their declared occupancy."""
    return a.shape == b.shape


def declared(kernel: str, dtype: str, capability: int) -> tuple[Configuration, ...]:
    """Return the declared configurations, or none for a kernel or a dtype without a declaration."""
    declaration = declaration_of(kernel)
    every = () if declaration is None else declaration.configurations.get(dtype, ())
    return tuple(each for each in every if each.is_for(capability))


def candidates(question: Question, default: Configuration) -> tuple[Configuration, ...]:
    """Return the candidates to time: the default, which may be a smaller tile of a declared one, then the
    others.
    """
    every = declared(question.kernel, question.dtype, capability_of(question.device))
    return (default, *(each for each in every if not is_same(each, default)))
