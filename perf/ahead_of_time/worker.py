"""A process that compiles what it is sent: one request a line on its input, one result a line on its output.

What the compiler raises ends the process, as an abort of the compiler does; whoever started it knows which
request did it, and finds the reason in the error stream, where everything goes that the compiler prints.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...runtime.cuda.occupancy import WARP_SIZE
from .disassembly import (
    count_instructions,
    disassemble,
    operands_of,
    resources,
    tensor_memory_columns,
    threads_of,
)
from .parameters import layout_faults
from .request import Request, decode, find, load_module
from .schedule import Schedule, schedule_of, tensor_memory_operations


def inspect(request: Request) -> dict[str, Any]:
    """Compile a kernel and say what it is made of.

    Raises:
        triton.compiler.errors.CompilationError, RuntimeError, subprocess.CalledProcessError: as the compiler does.
    """
    import triton

    from ...runtime.cuda.tensor_map import descriptor_type
    from ...runtime.cuda.triton.compile import compile_kernel

    kernel = find(request.kernel)
    binary = compile_kernel(
        kernel,
        request.signature,
        {name: decode(value) for name, value in request.constants.items()},
        frozenset(request.divisible),
        request.target,
        request.options,
    )
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    sass, usage = disassemble(binary.cubin, tools)
    instructions, used, ptx = count_instructions(sass), resources(usage), binary.asm["ptx"]
    pointers: list[str | None] = []
    for name in kernel.arg_names:
        type_ = request.signature.get(name)
        if type_ is not None:
            described = descriptor_type(type_)
            # A descriptor is a map, and a size and a stride for each dimension.
            count = 1 if described is None else 1 + 2 * len(described.block)
            pointers += [name if type_.startswith("*") else None] * count
    return {
        "registers": used["REG"],
        "local": used.get("STACK", 0) + used.get("LOCAL", 0),
        "spills": instructions.spills,
        "shared": binary.shared,
        "tensor_memory": tensor_memory_columns(ptx),
        "threads": threads_of(ptx),
        "traps": ptx.count("trap;"),
        "matrix": instructions.matrix,
        "widths": instructions.widths,
        "operands": {name: asdict(operand) for name, operand in operands_of(ptx, pointers).items()},
        "schedule": _schedule(sass, ptx).as_json(),
        "layout": layout_faults(ptx, binary.parameter_types),
        "cubin_bytes": len(binary.cubin),
    }


def _schedule(sass: str, ptx: str) -> Schedule:
    """The main way, with the operations of matrix instructions that one warp starts for all, from PTX."""
    found = schedule_of(sass)
    operations = tensor_memory_operations(ptx)
    if operations and found.matrix.startswith("UTC"):
        found.matrix_operations *= operations * WARP_SIZE / threads_of(ptx)
    return found


def answer(line: str) -> dict[str, Any]:
    """The result of a request, and how long it took."""
    started = time.perf_counter()
    result = inspect(Request(**json.loads(line)))
    return {**result, "seconds": round(time.perf_counter() - started, 2)}


def main(samples: str) -> None:
    """Serve until the input ends. `samples` is loaded first, since kernels may be defined in it."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    load_module(samples)
    for line in sys.stdin:
        output.write(json.dumps(answer(line)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
