"""Translation of PTX functions to Python: a basic block becomes a NumPy function, compiled on first use.

`instructions` writes the statements. A statement's line in the generated text maps back to its instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from . import arithmetic
from .basic_blocks import BasicBlock, blocks_of
from .contraction import exchanged_registers
from .instructions import Writer, write_bounds
from .instructions.writer import SHORT
from .ptx import Function, Instruction, Module
from .warp_group import merged

_NAMES: dict[str, Any] = {
    **{short: dtype for dtype, short in SHORT.items()},
    **{name: each for name, each in vars(arithmetic).items() if callable(each) and not name.startswith("_")},
    "where": np.where,
    "merged": merged,
    "np": np,
}
"""Names that the generated text uses."""


@lru_cache(maxsize=1024)
def _code(text: str, name: str) -> CodeType:
    """Compile the text, cached: kernels of one program that differ in a function share most of their blocks."""
    code: CodeType = compile(text, name, "exec")
    return code


class Translation:
    """Translated function of a module: basic blocks, compiled on first use.

    Raises:
        UntranslatableError: for what is not emulated; its message has the line of the PTX text.
    """

    def __init__(self, module: Module, function: Function, addresses: dict[str, int]) -> None:
        self.module = module
        self.function = function
        self.addresses = addresses
        self.register_index = {name: i for i, name in enumerate(function.registers)}
        self.widths = list(function.registers.values())
        self.constants: dict[str, Any] = dict(_NAMES)
        self._known: dict[tuple[int, int], str] = {}
        self.parameters = {p.name: p.offset for p in function.parameters}
        self.flies = any(each.opcode == "wgmma" for each in function.instructions)
        """True if registers may be in flight (`warp_group.InFlight`)."""
        self.exchanged = exchanged_registers(function)
        """Registers that have error bounds, with their types (`error_bounds`)."""
        self.blocks = blocks_of(function)
        self.sources: dict[str, list[Instruction | None]] = {}
        """Instruction of each line of the generated text, by the text's file name."""

    def run_block(self, block: BasicBlock, state: Any, registers: list[Any], mask: Any, frame: Any) -> None:
        """Run the instructions of a block, except the branch at its end."""
        form = block._forms.get(mask is None)
        if form is None:
            form = block._forms[mask is None] = self._compile(block, mask is None)
        form[0](state, registers, mask, frame)

    def _compile(
        self, block: BasicBlock, whole: bool
    ) -> tuple[Callable[..., None], list[Instruction | None]]:
        name = f"<{self.function.name} block {block.index}{'' if whole else ' masked'}>"
        writer = Writer(self, whole)
        for instruction in block.instructions:
            if self.exchanged:
                write_bounds(writer, instruction)
            writer.write(instruction)
        if block.end.kind == "wait" and not block.end.registers:
            assert block.end.instruction is not None
            writer.write(block.end.instruction._replace(opcode="mbarrier.wait", guard=None))
        text = "def block(s, R, M, F):\n" + "".join(f"    {line}\n" for line in writer.lines or ["pass"])
        exec(_code(text, name), self.constants)
        self.sources[name] = [None, None, *writer.instructions]
        return self.constants.pop("block"), self.sources[name]

    def constant(self, value: Any) -> str:
        """Return a name in the generated code for a NumPy scalar."""
        key = (value.dtype.num, int(value.view(f"u{value.dtype.itemsize}")))
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = f"K{len(self._known)}"
            self.constants[name] = value
        return name
