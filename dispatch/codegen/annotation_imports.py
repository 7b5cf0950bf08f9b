"""The imports of the types that generated signatures name."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection

TYPES = {
    "Sequence": "collections.abc",
    "Stream": "....runtime.cuda.stream",
    "device": "....runtime.device",
    "Generator": "....runtime.generator",
    "layout": "....runtime.layout",
    "memory_format": "....runtime.memory_format",
    "QScheme": "....runtime.qscheme",
    "Number": "....runtime.scalar_type",
    "dtype": "....runtime.scalar_type",
    "Storage": "....runtime.storage",
    "Tensor": "...tensor",
}
"""The modules of the types in annotations."""


def type_imports(names: Collection[str] = tuple(TYPES)) -> str:
    """Return the imports of the types that annotations name."""
    by_module: dict[str, list[str]] = {}
    for name, module in TYPES.items():
        if name in names:
            by_module.setdefault(module, []).append(name)
    return "\n".join(
        f"from {module} import {', '.join(type_names)}" for module, type_names in by_module.items()
    )


def checked_imports(code: str) -> str:
    """Return the imports of the types in annotations of generated code; only type checkers read them."""
    annotations = " ".join(re.findall(r"(?:: |-> )([^=\n]*)", without_docstrings(code)))
    imports = type_imports(set(re.findall(r"\w+", annotations)))
    return f"\nif TYPE_CHECKING:\n{textwrap.indent(imports, '    ')}\n" if imports else ""


def without_docstrings(code: str) -> str:
    """Return generated code without its strings and comments."""
    return re.sub(r'r?"""[\s\S]*?"""', "", code)


__all__ = ["checked_imports", "type_imports", "without_docstrings"]
