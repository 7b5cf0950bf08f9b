"""Default values that generated code compares by identity."""

from __future__ import annotations

INT_NEG_1 = -1
INT_0 = 0
INT_1 = 1
INT_2 = 2
INT_20 = 20
