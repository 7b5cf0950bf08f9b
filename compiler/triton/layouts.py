"""Copies of a convolution's operands with prologues: an operand is computed when it is copied to another layout.

Each element is loaded, computed and stored once, for any number of taps; padding of the channels is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...triton_kernels.convolution.layout_kernels import lay_out
from .product_forms import entry_text, unpacked_text
from .prologues import TilePlace, WrittenPrologue

FORM = "lay_out "
"""Prefix of the names of forms; a letter for each operand of the launch follows."""
LETTERS = {True: "l", False: "r"}
"""Letters of the computed input and the computed weight; ``-`` is a copied operand."""
TILE = TilePlace("made", "row", ("p", "c"), ("is_pixel", "is_there"))
PROLOGUE = """

@triton.jit
def {name}(made, operands, row, p, c, is_pixel, is_there):
    {unpacked} = operands
{body}
    return tl.where(is_there[None, :], {made}, tl.zeros_like({made}))
"""


def layout_text(form: str, name: str, prologues: Sequence[WrittenPrologue], imports: dict[Any, str]) -> str:
    """Return the functions of a form of copies.

    Args:
        form: Its name.
        name: Name of the kernel.
        prologues: Prologues of the computed operands.
        imports: Functions by their names in the source; others are added.
    """
    by_letter = {LETTERS[each.is_left]: each for each in prologues}
    pointers = [each for written in prologues for each in written.pointers]
    texts, functions = [], {}
    for i, letter in enumerate(form.removeprefix(FORM).removesuffix(" sums")):
        if letter == "-":
            continue
        lines, made = by_letter[letter].lines(imports, TILE)
        body = "\n".join(f"    {line}" for line in lines)
        functions[f"PROLOGUE{i}"] = f"{name}_prologue{i}"
        texts.append(
            PROLOGUE.format(
                name=functions[f"PROLOGUE{i}"], unpacked=unpacked_text(pointers), body=body, made=made
            )
        )
    return "".join([*texts, entry_text(lay_out, name, pointers, functions)])
