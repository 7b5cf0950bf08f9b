"""The Triton kernels that there are, from the source: what a first pass over all operators must have reached."""

from __future__ import annotations

import ast
from pathlib import Path

import triten as tt

FOLDER = Path(tt.__file__).parent / "triton_kernels"


def entry_kernels() -> dict[str, str]:
    """Kernels that are launched, rather than called by others, with the file that each is in."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.decorator_list and is_entry(node):
                found[node.name] = path.name
    return found


def is_entry(function: ast.FunctionDef) -> bool:
    """Whether a function writes to memory and is compiled: one that only stores for others is not launched."""
    decorated = any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
    body = ast.unparse(function)
    return decorated and "program_id(" in body


def unreached(reached: set[str]) -> list[str]:
    """Kernels that nobody compiled, as `file: name`."""
    return [f"{file}: {name}" for name, file in entry_kernels().items() if name not in reached]
