"""Source of a convolution's copies with prologues: an operand is computed when it is copied to another layout.

Each element is loaded, computed and stored once, for any number of taps; padding of the channels is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...triton_kernels.convolution.layout_kernels import lay_out, lay_tile
from .prologues import TilePlace, WrittenPrologue

IMPORTS = ("from triten.triton_kernels.convolution.layout_kernels import lay_tile",)
FORM = "lay_out "
"""Prefix of the names of forms; a letter for each operand of the launch follows."""
LETTERS = {True: "l", False: "r"}
"""Letters of the computed input and the computed weight; ``-`` is a copied operand."""
TILE = TilePlace("made", "row", ("p", "c"), ("is_pixel", "is_there"))
STORE = "    tl.store(y + "
"""The place in the text of `lay_tile` after the load of a tile."""


def layout_text(form: str, name: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """Return the functions of a form of copies.

    Args:
        form: Its name.
        name: Name of the kernel.
        prologues: Prologues of the computed operands.
        imports: Functions by their names in the source; others are added.
    """
    by_letter = {LETTERS[each.is_left]: each for each in prologues}
    every = "".join(f"    {each},\n" for written in prologues for each in written.pointers)
    text: str = lay_out.source.replace("def lay_out(\n", f"def {name}(\n{every}", 1)
    tiles = []
    for i, letter in enumerate(form.removeprefix(FORM).removesuffix(" sums")):
        if letter == "-":
            continue
        written = by_letter[letter]
        pointers = "".join(f"{each}, " for each in written.pointers)
        text = text.replace(f"lay_tile(x{i}, y{i}, ", f"{name}_tile{i}(x{i}, {pointers}y{i}, ", 1)
        tiles.append(_tile_text(f"{name}_tile{i}", written, imports))
    return "\n\n".join(["", *tiles, text])


def _tile_text(name: str, written: WrittenPrologue, imports: dict[Any, str]) -> str:
    """Return the function of a tile with a prologue."""
    parameters = "".join(f"    {each},\n" for each in written.pointers)
    source: str = lay_tile.source
    text = source.replace("def lay_tile(\n    x,\n", f"def {name}(\n    x,\n{parameters}", 1)
    head, separator, tail = text.partition(STORE)
    assert separator and f"def {name}(" in head
    lines, made = written.lines(imports, TILE)
    lines.append(f"made = tl.where(is_there[None, :], {made}, tl.zeros_like({made}))")
    return head + "".join(f"    {line}\n" for line in lines) + separator + tail
