"""Rules of views and other operators that move elements: the mapping of dimensions to those of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....dispatch.methods.subscripts import INTEGER, NEW_AXIS, RANGE
from ..placements import REPLICATE, Partial, Placement, Shard
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES", "reshaped"]

Pairs = list[tuple[int, int]]
"""Dimensions of the argument and of the result that have the same parts."""


def _moving(pairs_of: Callable[[Invocation], Pairs]) -> Callable[[Invocation], list[Strategy]]:
    """Return the strategies of an operator that moves elements of its first tensor."""

    def strategies(call: Invocation) -> list[Strategy]:
        rest: tuple[Placement, ...] = (REPLICATE,) * (len(call.tensors) - 1)
        results = len(call.results)
        result: list[Strategy] = [
            Strategy((Shard(after),) * results, (Shard(before), *rest)) for before, after in pairs_of(call)
        ]
        now = call.current(0)
        if isinstance(now, Partial):
            result.append(Strategy((now,) * results, (now, *rest)))
        return result

    return strategies


def _dim(call: Invocation, name: str = "dim", extra: int = 0) -> int:
    ndim = call.tensors[0].ndim + extra
    dim: int = call[name]
    return dim % ndim if ndim else 0


def _others(call: Invocation, dims: Sequence[int]) -> Pairs:
    return [(dim, dim) for dim in range(call.tensors[0].ndim) if dim not in dims]


def reshaped(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Match runs of dimensions of one shape with the runs of another shape that hold the same elements.

    Example:
        >>> from triten.distributed.tensor.rules.views import reshaped
        >>> reshaped((2, 4, 6), (8, 3, 2))
        [([0, 1], [0]), ([2], [1, 2])]
    """
    matches: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        left, right = [i], [j]
        a, b = before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                if i == len(before):
                    return matches
                a, left, i = a * before[i], [*left, i], i + 1
            else:
                if j == len(after):
                    return matches
                b, right, j = b * after[j], [*right, j], j + 1
        matches.append((left, right))
    return matches


def _view(call: Invocation) -> Pairs:
    before, after = call.tensors[0].shape, call.results[0].shape
    if 0 in before:
        return []
    pairs = []
    for left, right in reshaped(before, after):
        first = next((dim for dim in left if before[dim] != 1), left[0])
        head = next((dim for dim in right if after[dim] != 1), right[0])
        alone = before[first] == after[head]
        if alone or (call.is_even(0, first) and call.is_even_result(0, head)):
            pairs.append((first, head))
    return pairs


def _expanded(call: Invocation) -> Pairs:
    before, after = call.tensors[0].shape, call.results[0].shape
    moved = len(after) - len(before)
    return [(dim, dim + moved) for dim, size in enumerate(before) if size == after[dim + moved]]


def _permuted(call: Invocation) -> Pairs:
    ndim = call.tensors[0].ndim
    return [(before % ndim, after) for after, before in enumerate(call["dims"])]


def _transposed(call: Invocation) -> Pairs:
    first, second = _dim(call, "dim0"), _dim(call, "dim1")
    swapped = {first: second, second: first}
    return [(dim, swapped.get(dim, dim)) for dim in range(call.tensors[0].ndim)]


def _of_matrix(call: Invocation) -> Pairs:
    ndim = call.tensors[0].ndim
    return [(dim, ndim - 1 - dim) for dim in range(ndim)]


def _unsqueezed(call: Invocation) -> Pairs:
    dim = _dim(call, extra=1)
    return [(each, each + (each >= dim)) for each in range(call.tensors[0].ndim)]


def _squeezed_dims(call: Invocation) -> list[int]:
    shape = call.tensors[0].shape
    dim = call.get("dim")
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return [each % len(shape) for each in dims if shape and shape[each] == 1]


def _squeezed(call: Invocation) -> Pairs:
    dims = _squeezed_dims(call)
    remaining = [dim for dim in range(call.tensors[0].ndim) if dim not in dims]
    return [(dim, position) for position, dim in enumerate(remaining)]


def _squeeze(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    """Squeeze only dimensions of global size 1: a part may have size 1 where the tensor does not."""
    return values["self"].squeeze(tuple(_squeezed_dims(call)))


def _sliced(call: Invocation) -> Pairs:
    dim = _dim(call)
    whole = call.results[0].shape[dim] == call.tensors[0].shape[dim] and call["step"] == 1
    return _others(call, () if whole else (dim,))


def _slice(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    """Slice a part. A full slice of a sharded dimension is a full slice of the part."""
    dim = values["dim"]
    if isinstance(targets[0].placements, tuple) and any(
        each == Shard(dim % call.tensors[0].ndim) for each in targets[0].placements
    ):
        return func(values["self"], dim, 0, values["self"].shape[dim], 1)
    return func(values["self"], dim, values["start"], values["end"], values["step"])


def _first_sliced(call: Invocation) -> Pairs:
    whole = call.results[0].shape[0] == call.tensors[0].shape[0] and call["step"] == 1
    return _others(call, () if whole else (0,))


def _slice_first(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    if any(each == Shard(0) for each in targets[0].placements):
        return func(values["self"], None, None, 1)
    return func(values["self"], values["start"], values["end"], values["step"])


def _first_selected(call: Invocation) -> Pairs:
    return [(dim, dim - 1) for dim in range(1, call.tensors[0].ndim)]


def _indexed(index: Sequence[int], shape: Sequence[int]) -> Pairs:
    """Return the dimensions of which an index takes all elements. The index has four integers per subscript."""
    pairs = []
    before = after = 0
    for offset in range(0, len(index), 4):
        kind, start, stop, step = index[offset : offset + 4]
        if kind == RANGE and (start, stop, step) == (0, shape[before], 1):
            pairs.append((before, after))
        before += kind != NEW_AXIS
        after += kind != INTEGER
    return pairs + [(dim, dim - before + after) for dim in range(before, len(shape))]


def _of_part(index: Sequence[int], shape: Sequence[int], part: Sequence[int]) -> list[int]:
    """Adapt an index to a part: full ranges become full ranges of the part."""
    made = list(index)
    dim = 0
    for offset in range(0, len(index), 4):
        kind, *bounds = index[offset : offset + 4]
        if kind == RANGE and bounds == [0, shape[dim], 1]:
            made[offset + 2] = part[dim]
        dim += kind != NEW_AXIS
    return made


def _basic_index(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    local = values["self"]
    return func(local, _of_part(values["index"], call.tensors[0].shape, local.shape))


def _basic_index_backward(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    sizes = values["input_sizes"]
    return func(values["grad_output"], sizes, _of_part(values["index"], call.results[0].shape, sizes))


def _without(name: str, *more: str) -> Callable[[Invocation], Pairs]:
    """Parts along other dimensions than those that an argument names."""

    def pairs(call: Invocation) -> Pairs:
        ndim = call.tensors[0].ndim
        dims: list[int] = []
        for each in (name, *more):
            value = call[each]
            dims += [value] if isinstance(value, int) else value or range(ndim)
        return _others(call, [dim % ndim for dim in dims if ndim])

    return pairs


def _selected(call: Invocation) -> Pairs:
    dim = _dim(call)
    return [(each, each - (each > dim)) for each in range(call.tensors[0].ndim) if each != dim]


def _select_gradient(call: Invocation) -> Pairs:
    dim = call["dim"] % len(call.results[0].shape)
    return [(each, each + (each >= dim)) for each in range(call.tensors[0].ndim)]


def _slice_gradient(call: Invocation) -> Pairs:
    dim = _dim(call)
    return _others(call, (dim,) if call.results[0].shape[dim] != call.tensors[0].shape[dim] else ())


def _slice_backward(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    dim = values["dim"]
    if call.results[0].shape[dim] == call.tensors[0].shape[dim]:
        return values["grad_output"].clone()
    return func(*(values[each] for each in ("grad_output", "input_sizes", "dim", "start", "end", "step")))


def _matrices(call: Invocation) -> Pairs:
    return [(dim, dim) for dim in range(call.tensors[0].ndim - 2)]


def _repeated(call: Invocation) -> Pairs:
    repeats = call["repeats"]
    moved = len(repeats) - call.tensors[0].ndim
    return [(dim, dim + moved) for dim in range(call.tensors[0].ndim) if repeats[dim + moved] == 1]


def _padded(call: Invocation) -> Pairs:
    touched = range(call.tensors[0].ndim - len(call["pad"]) // 2, call.tensors[0].ndim)
    return _others(call, touched)


def _new(call: Invocation) -> list[Strategy]:
    """Return the strategies of a new tensor of any shape. With the same shape, it takes the argument's
    placement.
    """
    now = call.current(0)
    strategies = [Strategy((REPLICATE,), (None,))]
    if call.results[0].shape == call.tensors[0].shape and isinstance(now, Shard):
        strategies.insert(0, Strategy((now,), (now,)))
    return strategies


def _joined(call: Invocation) -> list[Strategy]:
    """Return the strategies of a concatenation along a dimension."""
    ndim = len(call.results[0].shape)
    if any(each.ndim != ndim for each in call.tensors):
        return []
    joined = call["dim"] % ndim
    strategies = [
        Strategy((Shard(dim),), (Shard(dim),) * len(call.tensors)) for dim in range(ndim) if dim != joined
    ]
    reductions = {call.current(index) for index in range(len(call.tensors))}
    if len(reductions) == 1 and isinstance(call.current(0), Partial):
        (now,) = reductions
        strategies.append(Strategy((now,), (now,) * len(call.tensors)))
    return strategies


def _view_rule(sizes: str = "size") -> Rule:
    return Rule(_moving(_view), sizes=sizes)


RULES = {
    "aten::view": _view_rule(),
    "aten::_unsafe_view": _view_rule(),
    "aten::reshape": _view_rule("shape"),
    "aten::expand": Rule(_moving(_expanded), sizes="size"),
    "aten::permute": Rule(_moving(_permuted)),
    "aten::transpose.int": Rule(_moving(_transposed)),
    "aten::t": Rule(_moving(_of_matrix)),
    "aten::unsqueeze": Rule(_moving(_unsqueezed)),
    "aten::squeeze": Rule(_moving(_squeezed), local=_squeeze),
    "aten::squeeze.dim": Rule(_moving(_squeezed), local=_squeeze),
    "aten::squeeze.dims": Rule(_moving(_squeezed), local=_squeeze),
    "aten::slice.Tensor": Rule(_moving(_sliced), local=_slice),
    "aten::slice_backward": Rule(_moving(_slice_gradient), sizes="input_sizes", local=_slice_backward),
    "aten::select.int": Rule(_moving(_selected)),
    "aten::select_backward": Rule(_moving(_select_gradient), sizes="input_sizes"),
    "aten::view_as_real": Rule(_moving(lambda call: _others(call, ()))),
    "aten::view_as_complex": Rule(_moving(lambda call: _others(call, (call.tensors[0].ndim - 1,)))),
    "aten::_slice_first": Rule(_moving(_first_sliced), local=_slice_first),
    "aten::_select_first": Rule(_moving(_first_selected)),
    "aten::_basic_index": Rule(
        _moving(lambda call: _indexed(call["index"], call.tensors[0].shape)), local=_basic_index
    ),
    "aten::_basic_index_backward": Rule(
        _moving(lambda call: [(b, a) for a, b in _indexed(call["index"], call.results[0].shape)]),
        sizes="input_sizes",
        local=_basic_index_backward,
    ),
    "aten::split.Tensor": Rule(_moving(_without("dim"))),
    "aten::split_with_sizes": Rule(_moving(_without("dim"))),
    "aten::unbind.int": Rule(_moving(_selected)),
    "aten::flip": Rule(_moving(_without("dims"))),
    "aten::roll": Rule(_moving(_without("dims"))),
    "aten::tril": Rule(_moving(_matrices)),
    "aten::triu": Rule(_moving(_matrices)),
    "aten::repeat": Rule(_moving(_repeated)),
    "aten::constant_pad_nd": Rule(_moving(_padded)),
    "aten::cat": Rule(_joined),
    "aten::new_empty": Rule(_new, sizes="size"),
    "aten::new_full": Rule(_new, sizes="size"),
    "aten::new_ones": Rule(_new, sizes="size"),
    "aten::new_zeros": Rule(_new, sizes="size"),
}
"""The rules of the family."""
