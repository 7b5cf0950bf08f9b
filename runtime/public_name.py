"""The package's name in the text of dtypes, sizes and others: `triten`, or the name it was imported under."""

from __future__ import annotations

shown = __name__.partition(".")[0]
"""Prefix before the dot in ``triten.float32``; "torch" in programs of `triten.as_torch`."""
