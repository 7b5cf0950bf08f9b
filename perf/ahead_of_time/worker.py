"""Worker process that compiles requests: one request per input line, one answer per output line.

An answer has the compiler's and the PTX's data on a kernel, and the cubin, which is disassembled together
with others.

An exception or abort of the compiler ends the process. The parent process knows which request caused it. The
error stream has the reason, and everything else that the compiler prints.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .disassembly import operands_of, resources, tensor_memory_columns, threads_of, usage_of
from .parameters import layout_faults
from .request import Request, decode, find, load_module
from .schedule import tensor_memory_operations


def inspect(request: Request) -> tuple[dict[str, Any], bytes]:
    """Compile a kernel, and return its cubin and the properties that PTX shows.

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
    used, ptx = resources(usage_of(binary.cubin, tools)), binary.asm["ptx"]
    pointers: list[str | None] = []
    for name in kernel.arg_names:
        type_ = request.signature.get(name)
        if type_ is not None:
            described = descriptor_type(type_)
            # A descriptor is a map, and a size and a stride for each dimension.
            count = 1 if described is None else 1 + 2 * len(described.block)
            pointers += [name if type_.startswith("*") else None] * count
    properties = {
        "registers": used["REG"],
        "local": used.get("STACK", 0) + used.get("LOCAL", 0),
        "shared": binary.shared,
        "tensor_memory": tensor_memory_columns(ptx),
        "threads": threads_of(ptx),
        "traps": ptx.count("trap;"),
        "operands": {name: asdict(operand) for name, operand in operands_of(ptx, pointers).items()},
        "tensor_memory_operations": tensor_memory_operations(ptx),
        "layout": layout_faults(ptx, binary.parameter_types),
        "cubin_bytes": len(binary.cubin),
    }
    return properties, binary.cubin


def answer(line: str) -> dict[str, Any]:
    """Return the findings of `inspect`, and the elapsed time."""
    started = time.perf_counter()
    properties, cubin = inspect(Request(**json.loads(line)))
    properties["seconds"] = round(time.perf_counter() - started, 2)
    return {"found": properties, "cubin": base64.b64encode(cubin).decode()}


def main(samples: str) -> None:
    """Serve until the input ends. `samples` is loaded first, since kernels may be defined in it."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    load_module(samples)
    for line in sys.stdin:
        output.write(json.dumps(answer(line)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
