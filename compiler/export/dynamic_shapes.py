"""`Dim`, and which dimensions of a call's tensors it names (torch/export/dynamic_shapes.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.pytree import NODES, node_type
from ...runtime.tensor_impl import TensorImpl


class Dim:
    """The name of a size that may differ from call to call (`torch.export.Dim`). Equal names are equal sizes.

    Args:
        name: an identifier.
        min: the least size that calls may have. Without it, what the module can take from 0 on.
        max: the greatest size, None for any.

    Raises:
        ValueError: `name` is no identifier, or `max` below `min`.

    Example:
        >>> import triten as tt
        >>> batch = tt.export.Dim("batch", max=64)
        >>> program = tt.export.export(tt.nn.Linear(2, 3), (tt.ones(4, 2),), dynamic_shapes={"input": {0: batch}})
        >>> program.range_constraints
        {'batch': ValueRange(lower=0, upper=64)}
        >>> program.module()(tt.ones(7, 2)).shape
        triten.Size([7, 3])
    """

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim: name must be an identifier, got {name!r}")
        if (min is not None and min < 0) or (max is not None and max < (min or 0)):
            raise ValueError(f"Dim '{name}': expected 0 <= min <= max, got {min} and {max}")
        self.__name__ = name
        self.min = min
        self.max = max

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return several `Dim` with one range (`torch.export.dims`).

    Example:
        >>> import triten as tt
        >>> tt.export.dims("batch", "length", min=1)
        (Dim('batch', min=1, max=None), Dim('length', min=1, max=None))
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


class ValueRange(NamedTuple):
    """Range of a dimension; `upper` is None if there is no bound."""

    lower: int
    upper: int | None

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.lower <= value and (self.upper is None or value <= self.upper)

    def __str__(self) -> str:
        return f"{self.lower} to {'any' if self.upper is None else self.upper}"


def typical_sizes(ranges: Mapping[str, ValueRange]) -> list[dict[str, int]]:
    """Return typical sizes of the names: one, an odd one, a multiple of 16, and the greatest, if there is one.

    Example:
        >>> from triten.compiler.export.dynamic_shapes import ValueRange, typical_sizes
        >>> typical_sizes({"n": ValueRange(0, 40)})
        [{'n': 1}, {'n': 33}, {'n': 32}, {'n': 40}]
    """
    points: list[dict[str, int]] = []
    for size in (1, 33, 32, None):
        sizes = {}
        for name, each in ranges.items():
            upper = each.upper if each.upper is not None else 64
            sizes[name] = max(each.lower, min(upper if size is None else size, upper))
        if sizes not in points:
            points.append(sizes)
    return points


class DynamicSizes(NamedTuple):
    """The named dimensions of each tensor among a call's leaves, and the ranges of the names.

    Attributes:
        dimension_names: For each tensor, the names by dimension.
        dims: The dimensions, by name.
    """

    dimension_names: tuple[dict[int, str], ...]
    dims: dict[str, Dim]


def dynamic_sizes(
    dynamic_shapes: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], names: Sequence[str]
) -> DynamicSizes:
    """Return the dynamic dimensions that `dynamic_shapes` names.

    Args:
        dynamic_shapes: For each argument, by name or in order: None; a dict from dimensions to `Dim`; a list of a
            `Dim` or None for each dimension; for a nested argument, a nest of these.
        args, kwargs: Arguments of the call.
        names: Names of the positional arguments.

    Raises:
        ValueError: It does not fit the arguments.
        NotImplementedError: A value is not a `Dim`, such as one computed from another.
    """
    values = {**dict(zip(names, args, strict=True)), **kwargs}
    if isinstance(dynamic_shapes, Mapping):
        unknown = dynamic_shapes.keys() - values.keys()
        if unknown:
            raise ValueError(
                f"dynamic_shapes: no argument is named {sorted(unknown)[0]!r}; there are {list(values)}"
            )
        shapes = [dynamic_shapes.get(name) for name in values]
    elif isinstance(dynamic_shapes, tuple | list) and len(dynamic_shapes) == len(values):
        shapes = list(dynamic_shapes)
    else:
        raise ValueError(
            f"dynamic_shapes: expected a dict by the names {list(values)}, or a tuple of {len(values)}, got "
            f"{dynamic_shapes!r}"
        )
    dimension_names: list[dict[int, str]] = []
    dims: dict[str, Dim] = {}
    for (name, value), shape in zip(values.items(), shapes, strict=True):
        _collect(name, value, shape, dimension_names, dims)
    return DynamicSizes(tuple(dimension_names), dims)


def _collect(
    path: str, value: object, shape: Any, dimension_names: list[dict[int, str]], dims: dict[str, Dim]
) -> None:
    if isinstance(value, TensorImpl):
        dimension_names.append(_of_tensor(path, value, shape, dims))
        return
    node = NODES.get(node_type(value))
    if node is None:
        if shape is not None:
            raise ValueError(f"dynamic_shapes: argument {path} is no tensor, got {shape!r}")
        return
    children = list(node.flatten_fn(value)[0])
    if shape is None:
        inner: list[Any] = [None] * len(children)
    elif isinstance(value, Mapping) and isinstance(shape, Mapping):
        inner = [shape.get(key) for key in value]
    else:
        inner = list(shape)
    if len(inner) != len(children):
        raise ValueError(f"dynamic_shapes: argument {path} has {len(children)} elements, got {shape!r}")
    for i, (child, each) in enumerate(zip(children, inner, strict=True)):
        _collect(f"{path}[{i}]", child, each, dimension_names, dims)


def _of_tensor(path: str, tensor: TensorImpl, shape: Any, dims: dict[str, Dim]) -> dict[int, str]:
    rows = enumerate(shape or ()) if not isinstance(shape, Mapping) else shape.items()
    named: dict[int, str] = {}
    for index, dim in rows:
        if not -tensor.dim() <= index < tensor.dim():
            raise ValueError(f"dynamic_shapes: argument {path} has {tensor.dim()} dimensions, got {index}")
        size = tensor.shape[index]
        if dim is None or (isinstance(dim, int) and not isinstance(dim, bool) and dim == size):
            continue
        if not isinstance(dim, Dim):
            raise NotImplementedError(
                f"dynamic_shapes: argument {path}, dimension {index}: expected a Dim or None, got {dim!r}"
            )
        known = dims.setdefault(dim.__name__, dim)
        if known is not dim and (known.min, known.max) != (dim.min, dim.max):
            raise ValueError(f"dynamic_shapes: there are two ranges of '{dim.__name__}': {known} and {dim}")
        if size < (dim.min or 0) or (dim.max is not None and size > dim.max):
            raise ValueError(
                f"dynamic_shapes: argument {path}, dimension {index} is {size}, out of the range of {dim}"
            )
        named[index % tensor.dim()] = dim.__name__
    return named
