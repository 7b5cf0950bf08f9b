"""What each instruction of PTX becomes: Python statements over NumPy arrays.

`writer` has operands and results, and what registers an opcode; the others have the instructions, by what they do:
`numbers`, `comparisons`, `conversions`, `memory`, `warps`, the asynchronous `units` of sm_90 and the `tensor_memory` of
sm_100. An instruction is a line of a table, or a function under `emits` where its operands decide more. What
instructions do is not here: the statements call `arithmetic` and the state of the blocks that run (`machine`).
`error_bounds` adds statements for registers that depend on an exchange.
"""

from . import (  # noqa: F401 - what they register is used
    comparisons,
    conversions,
    memory,
    numbers,
    tensor_memory,
    units,
    warps,
)
from .error_bounds import write_bounds as write_bounds
from .writer import Writer as Writer
from .writer import known_opcodes as known_opcodes
