"""Translation of PTX instructions to Python statements over NumPy arrays.

`writer` has operands, results and the opcode registry. The other modules have the instructions by function:
`numbers`, `comparisons`, `conversions`, `memory`, `warps`, the asynchronous `units` of sm_90 and the `tensor_memory`
of sm_100. An instruction is a row of a table, or a function under `emits` if its operands decide more. The statements
call `arithmetic` and the state of the running blocks (`machine`), which implement the instructions. `error_bounds`
adds statements for registers that depend on an exchange.
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
