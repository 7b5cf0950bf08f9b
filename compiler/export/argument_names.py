"""Names of a call's leaves: for nodes of the graph, and for messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...dispatch.layers.pytree import GetAttrKey, MappingKey, SequenceKey
from ...utils._pytree import keystr, tree_flatten_with_path


def argument_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return, for each leaf of ``(args, kwargs)``, a name for its node and its Python access path.

    Example:
        >>> from triten.compiler.export.argument_names import argument_names
        >>> argument_names(lambda x, scale=1: x, ({"a": 1, "b": [2]},), {"scale": 3})
        [('x_a', "x['a']"), ('x_b_0', "x['b'][0]"), ('scale', 'scale')]
    """
    tops = [*zip(positional_names(function, len(args)), args, strict=True), *kwargs.items()]
    names = []
    for name, value in tops:
        for path, _ in tree_flatten_with_path(value)[0]:
            names.append(("_".join([name, *map(_step, path)]), f"{name}{keystr(path)}"))
    return names


def _step(key: Any) -> str:
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, MappingKey):
        return str(key.key)
    return key.name if isinstance(key, GetAttrKey) else str(key).strip("[].'")


def positional_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the parameters that receive `count` positional arguments."""
    names = list(_parameter_names(function, count))
    return names + [f"args_{i}" for i in range(len(names), count)]


def _parameter_names(function: Callable[..., Any], count: int) -> Iterator[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    for index, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            yield from (f"{parameter.name}_{i}" for i in range(count - index))
            return
        if index == count or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            return
        yield parameter.name
