"""Names of parameters and buffers without the prefixes of module wrappers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...compiler.optimized_module import OptimizedModule
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel

__all__ = ["canonical_name", "named_state"]

WRAPPERS: dict[type[Module], str] = {DistributedDataParallel: "module", OptimizedModule: "_orig_mod"}
"""Modules that only hold another, and under which name."""
CHECKPOINT = "_checkpoint_wrapped_module."


def canonical_name(model: Module, name: str) -> str:
    """Strip the names that wrappers add from a dotted name of a parameter, buffer or module."""
    name = name.replace(CHECKPOINT, "")
    parts: list[str] = []
    submodule: Any = model
    for name_part in name.split("."):
        held = next((own for cls, own in WRAPPERS.items() if isinstance(submodule, cls)), None)
        if held is None or name_part != held:
            parts.append(name_part)
        submodule = getattr(submodule, name_part, None)
    return ".".join(parts)


def named_state(model: Module) -> Iterator[tuple[str, str, Any]]:
    """Yield the canonical name, the name, and the tensor of each parameter and persistent buffer.

    A shared tensor is yielded once for each of its names.
    """
    for prefix, module in model.named_modules():
        for name, tensor in module._own_state().items():
            own = f"{prefix}.{name}" if prefix else name
            yield canonical_name(model, own), own, tensor
