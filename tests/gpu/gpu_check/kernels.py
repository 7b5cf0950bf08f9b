"""The Triton kernels that there are, from the source: what a first pass over all operators must have reached."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import triten as tt

FOLDER = Path(tt.__file__).parent / "triton_kernels"


@lru_cache(maxsize=1)
def entry_kernels() -> dict[str, str]:
    """Return the kernels that are launched directly, with each kernel's file."""
    functions: dict[str, tuple[str, ast.FunctionDef]] = {}
    launched: set[str] = set()
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and is_compiled(node):
                functions[node.name] = path.relative_to(FOLDER).as_posix(), node
            elif (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == "declare"
                and isinstance(node.args[0], ast.Name)
            ):
                launched.add(node.args[0].id)
    called: set[str] = set()
    for _, function in functions.values():
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            if isinstance(call.func, ast.Name):
                called.add(call.func.id)
            elif ast.unparse(call.func) == "gl.warp_specialize":
                called.update(partition.elts[0].id for partition in call.args[0].elts)
    return {
        name: file
        for name, (file, function) in functions.items()
        if touches_memory(ast.unparse(function)) and (name not in called or name in launched)
    }


def is_compiled(function: ast.FunctionDef) -> bool:
    """Return True if a function is decorated for Triton."""
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def touches_memory(body: str) -> bool:
    """Return True if a function reads its program ID or stores; an elementwise function does neither."""
    return "program_id(" in body or "tl.store(" in body


WITH_TENSOR_MAPS = (
    *(
        "attention_bulk",
        "convolve_backward_weight_bulk",
        "convolve_bulk",
        "convolve_bulk_parts",
        "convolve_bulk_phases",
        "convolve_bulk_strided",
        "grouped_matmul_bulk",
        "matmul_persistent",
    ),
    "scaled_blocks_matmul",
)
"""Kernels for devices of compute capability 9.0 and later; the last one, of 8-bit floats, for 8.9 too."""
WITH_STREAM_K = ("matmul_stream_k",)
"""Kernels for devices of compute capability 9.0 and later, of 16-bit floats without Gluon and of 8-bit ones."""
WITH_WARPGROUP_PRODUCTS = (
    "attention_warp_specialized",
    "attention_backward_keys_warp_specialized",
    "attention_backward_queries_warp_specialized",
    "matmul_stream_k_specialized",
    "matmul_warp_specialized",
)
"""Kernels for devices of compute capability 9.0 alone."""
WITH_TENSOR_MEMORY = ("attention_tensor_memory", "matmul_tensor_memory")
"""Kernels for devices of compute capability 10.0 and 10.3 alone."""
WITH_BLOCK_SCALES = ("block_scaled_matmul",)
"""Kernels for devices of compute capability 10.0 and later."""


def unreached(reached: set[str], major: int = 9) -> list[str]:
    """Return the kernels, as `file: name`, that the run did not compile for a major compute capability."""
    return [
        f"{file}: {name}"
        for name, file in entry_kernels().items()
        if name not in reached
        and not (major < 9 and name in (*WITH_TENSOR_MAPS, *WITH_STREAM_K))
        and not (major != 9 and name in WITH_WARPGROUP_PRODUCTS)
        and not (major != 10 and name in WITH_TENSOR_MEMORY)
        and not (major < 10 and name in WITH_BLOCK_SCALES)
    ]
