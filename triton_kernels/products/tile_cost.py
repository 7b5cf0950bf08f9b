"""Cost model of a matmul's tiles, which chooses tiles until tables are measured."""

from __future__ import annotations

from ..budget import Configuration
from ..launch import cdiv

LOAD_COST = 40.0
"""Cost of an operand's element relative to one of its multiply-adds: a guess, until tables are measured."""
EPILOGUE_COST = 128.0
"""Cost of storing an element of a tile while no other block of the multiprocessor multiplies: a guess."""


def resident(configuration: Configuration) -> int:
    """Return the declared blocks per multiprocessor of a configuration, which are the same on every target."""
    return (
        configuration.blocks
        if isinstance(configuration.blocks, int)
        else next(iter((configuration.blocks or {90: 1}).values()))
    )


def cost(configuration: Configuration, tiles: int, inner: int, num_multiprocessors: int) -> float:
    """Return the cost of tiles in multiply-adds of a slot: whole waves, and loads beside arithmetic.

    Each element of a tile accumulates `inner` multiply-adds.
    """
    rows, columns = configuration.tile[:2]
    blocks = resident(configuration)
    waves = cdiv(tiles, num_multiprocessors * blocks)
    alone = EPILOGUE_COST * rows * columns if blocks == 1 else 0.0
    return waves * blocks * (inner * (rows * columns + LOAD_COST * (rows + columns)) + alone)
