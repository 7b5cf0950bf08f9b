"""Conversion of floats to float8_e8m0fnu, powers of two from 2**-127 to 2**127.

Source: OCP Microscaling Formats (MX), version 1.0, section 5.4.1; the rounding is PyTorch's (`c10::Float8_e8m0fnu`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .scalar_type import EXPONENTS

SMALLEST, LARGEST = 2.0**-127, 2.0**127
"""Smallest power of two, the byte 0, and the largest; the byte 255 is NaN."""


def to_exponents(array: Any) -> Any:
    """Convert float32 to float8_e8m0fnu: the nearest power of two of the magnitude, halves upwards.

    Zeros become the smallest power. Values that round beyond the largest one, infinities and NaN become NaN.
    """
    bits = np.asarray(array, np.float32).view(np.uint32) & np.uint32(0x7FFFFFFF)
    exponent = bits >> np.uint32(23)
    # Half of the smallest power is between zero and it: the byte 0 is nearest.
    above = (bits & np.uint32(0x7FFFFF)) + (exponent > 0) > 0x400000
    return np.minimum(exponent + above, 255).astype(np.uint8).view(EXPONENTS.np)
