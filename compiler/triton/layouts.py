"""The source of a convolution's copies with prologues: an operand is computed where it is laid out anew.

Each element is loaded, computed and stored once, whatever the number of taps; what lies beyond the channels is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...triton_kernels.convolution.layout_kernels import lay_out, lay_tile
from .prologues import TilePlace, WrittenPrologue

IMPORTS = ("from triten.triton_kernels.convolution.layout_kernels import lay_tile",)
FORM = "lay_out "
"""What the names of forms begin with: a letter for each operand of the launch follows."""
LETTERS = {True: "l", False: "r"}
"""Of the input and of the weight where they are computed; ``-`` is one that is copied."""
TILE = TilePlace("made", "row", ("p", "c"), ("is_pixel", "is_there"))
STORE = "    tl.store(y + "
"""Where the text of `lay_tile` has loaded a tile."""


def layout_text(form: str, name: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """The functions of a form of copies.

    Args:
        form: its name.
        name: of the kernel.
        prologues: of the operands that are computed.
        imports: functions by the names that the source gives them; others are added.
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
    """The function of a tile that is computed on its way."""
    parameters = "".join(f"    {each},\n" for each in written.pointers)
    source: str = lay_tile.source
    text = source.replace("def lay_tile(\n    x,\n", f"def {name}(\n    x,\n{parameters}", 1)
    head, found, tail = text.partition(STORE)
    assert found and f"def {name}(" in head
    lines, made = written.lines(imports, TILE)
    lines.append(f"made = tl.where(is_there[None, :], {made}, tl.zeros_like({made}))")
    return head + "".join(f"    {line}\n" for line in lines) + found + tail
