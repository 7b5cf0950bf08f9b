"""Text descriptions of an operator's registrations and dispatch table, which explain the kernel of each key."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from ...runtime.dispatch_key import NUM_BACKENDS, PER_BACKEND, RUNTIME, DispatchKey
from .kernel_function import KernelFunction
from .operator_entry import OperatorEntry, fallbacks

_WIDTH = 110
_JOINED = "\0"


def describe(entry: OperatorEntry) -> str:
    """Return a description of an operator: name, schema, source, tags, kernels by key, and the kernel of each runtime
    key.

    The last kernel registered for a key is active; the others are marked inactive. Runtime keys with the same kernel
    and reason share a line; "own" marks a kernel registered for that very key. Source: OperatorEntry::dumpState and
    dumpComputedTable.

    Example:
        >>> import triten as tt
        >>> with tt.library.Library("docs", "DEF") as lib:
        ...     name = lib.define("f(Tensor x) -> Tensor", tags=tt.Tag.pointwise)
        ...     lib.impl("f", lambda x: x, "CPU")
        ...     lib.impl("f", tt.library.fallthrough_kernel, "AutogradCPU")
        ...     print(tt.ops.docs.f.default.dump())
        name: docs::f
        schema: docs::f(Tensor x) -> Tensor
        defined: ...
        tags: pointwise
        kernels:
          CPU: ...
          AutogradCPU: fallthrough, ...
        dispatch table:
          CPU: own, ...
          CUDA, Meta, XLA, XPU, ..., every Quantized<backend>, every Sparse<backend>, ...: missing
          ...
          AutogradOther, AutogradCUDA, ...: backend fallback, autograd fallback
          AutogradCPU: own, fallthrough, ...
    """
    lines = [f"name: {entry.name}"]
    if entry.has_schema:
        lines += [
            f"schema: {entry.schema}",
            f"defined: {entry.source}",
            f"tags: {', '.join(sorted(entry.tags)) or 'none'}",
        ]
    else:
        lines.append("schema: none, it is not defined")
    kernels = entry.kernels
    lines.append("kernels:" if kernels else "kernels: none")
    for key in sorted(kernels, key=_rank):
        *inactive, active = kernels[key]
        lines.append(f"  {key}: {_place(active)}")
        lines += [f"  {key} (inactive): {_place(kernel)}" for kernel in reversed(inactive)]
    lines.append("dispatch table:")
    rows: dict[str, list[DispatchKey]] = {}
    for key in sorted(RUNTIME.values(), key=_rank):
        rows.setdefault(answer_of(entry, key, kernels), []).append(key)
    for answer, keys in rows.items():
        # Break lines only between keys.
        text = f"{', '.join(name.replace(' ', _JOINED) for name in _grouped(keys))}: {answer.replace(' ', _JOINED)}"
        wrapped = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
        lines += textwrap.indent("\n    ".join(wrapped), "  ").replace(_JOINED, " ").split("\n")
    return "\n".join(lines)


def answer_of(
    entry: OperatorEntry, key: DispatchKey, kernels: Mapping[DispatchKey, tuple[KernelFunction, ...]]
) -> str:
    """Return which kernel serves a runtime key, and why."""
    try:
        origin = entry.origin_of(key, kernels)
    except RuntimeError:
        return "ambiguous, CompositeImplicitAutograd or the autograd kernel of a backend"
    if origin is not None:
        reason = "own" if origin is key else f"alias {origin}"
        return f"{reason}, {_place(kernels[origin][-1])}"
    fallback = fallbacks.get(key)
    return "missing" if fallback is None else f"backend fallback, {_place(fallback)}"


def _place(kernel: KernelFunction) -> str:
    source = kernel.source or "an unknown place"
    return f"fallthrough, {source}" if kernel.is_fallthrough else source


def _rank(key: DispatchKey) -> tuple[bool, tuple[int, int], str]:
    """Return a sort key: runtime keys by ascending priority, then aliases by name."""
    return key.is_alias, key.priority, key.name


def _grouped(keys: Iterable[DispatchKey]) -> list[str]:
    """Return the names of keys; keys of one functionality for every backend share a name."""
    by_functionality: dict[int | None, list[DispatchKey]] = {}
    for key in keys:
        by_functionality.setdefault(key.functionality, []).append(key)
    names: list[str] = []
    for group in by_functionality.values():
        functionality = group[0].functionality
        if len(group) == NUM_BACKENDS and functionality in PER_BACKEND:
            names.append("every " + PER_BACKEND[functionality].format("<backend>"))
        else:
            names += [key.name for key in group]
    return names
