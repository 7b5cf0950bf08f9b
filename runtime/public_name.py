"""The package's name in texts of dtypes, sizes and their like: `triten`, or what a program imported it as."""

from __future__ import annotations

shown = __name__.partition(".")[0]
"""What stands before the dot in ``triten.float32``; "torch" in programs of `triten.as_torch`."""
