"""Changes of a tensor's dimension names, and of its dimensions by name (ATen/native/NamedTensor.cpp).

All functions but `rename_` and `assign_names` return views, through which gradients pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from ....runtime.dimname import Names, checked_names, describe
from ....runtime.named_spec import named
from ....runtime.tensor_impl import TensorImpl
from .key import renamed

if TYPE_CHECKING:
    from ...tensor import Tensor


def assign_names(tensor: Tensor, names: Any) -> None:
    """Set ``tensor.names``: a sequence of names, or None for none."""
    if names is None:
        tensor._spec = tensor._spec.unnamed
        return
    if not isinstance(names, tuple | list):
        raise TypeError(f"names must be a tuple of names or None, not {type(names).__name__}")
    rename_(tensor, tuple(names), {})


def rename(tensor: Tensor, names: Sequence[Any], rename_map: Mapping[str, str | None]) -> Tensor:
    """Run `Tensor.rename`."""
    return renamed(tensor, _new_names("rename", tensor, names, rename_map))


def rename_(tensor: Tensor, names: Sequence[Any], rename_map: Mapping[str, str | None]) -> Tensor:
    """Run `Tensor.rename_`."""
    tensor._spec = named(tensor._spec, _new_names("rename_", tensor, names, rename_map))
    return tensor


def _new_names(
    function: str, tensor: Tensor, names: Sequence[Any], rename_map: Mapping[str, str | None]
) -> Names:
    """Return a tensor's names after `rename`."""
    before: Names = tensor._spec.names
    if names and rename_map:
        raise RuntimeError(
            f"{function}: This function takes either positional args or keyword args, but not both. Use "
            f"tensor.{function}(*names) to name dims and tensor.{function}(**rename_map) to rename dims."
        )
    if rename_map:
        for old, new in rename_map.items():
            if old not in before:
                raise RuntimeError(
                    f"{function}: Tried to rename dim '{old}' to dim {new} in Tensor[{before}] but dim '{old}' does "
                    "not exist"
                )
        return checked_names(
            _typed(function, [rename_map.get(name, name) if name is not None else None for name in before]),
            len(before),
        )
    if len(names) == 1 and names[0] is None:
        return (None,) * len(before)
    return checked_names(_typed(function, _with_ellipsis(function, names, before)), len(before))


def _is_ellipsis(name: Any) -> bool:
    return isinstance(name, EllipsisType) or (isinstance(name, str) and name == "...")


def _one_ellipsis(function: str, names: Sequence[Any]) -> int | None:
    """Return the position of ``...`` among names; None without it. Raises RuntimeError for several."""
    positions = [i for i, name in enumerate(names) if _is_ellipsis(name)]
    if len(positions) > 1:
        raise RuntimeError(
            f"{function}: More than one Ellipsis ('...') found in names ({tuple(names)}). This function supports up "
            "to one Ellipsis."
        )
    return positions[0] if positions else None


def _with_ellipsis(function: str, names: Sequence[Any], before: Names) -> list[Any]:
    """Return the names with ``...`` replaced by the tensor's own at its dimensions."""
    position = _one_ellipsis(function, names)
    if position is None:
        return list(names)
    after = len(names) - position - 1
    return [*names[:position], *before[position : len(before) - after], *names[position + 1 :]]


def _typed(function: str, names: Sequence[Any]) -> list[str | None]:
    """Return the names if all have the right type. Raises TypeError otherwise."""
    for name in names:
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"{function}(): expected None or string for Dimname but got {type(name).__name__}"
            )
    return list(names)


def refine_names(tensor: Tensor, names: Sequence[Any]) -> Tensor:
    """Run `Tensor.refine_names`."""
    before: Names = tensor._spec.names
    new_names = _typed("refine_names", _with_ellipsis("refine_names", names, before))
    failed = f"refine_names: cannot coerce Tensor{describe(before)} to Tensor{describe(new_names)} because"
    if len(new_names) != len(before):
        raise RuntimeError(
            f"{failed} they have a different number of dims ({len(before)} and {len(new_names)} respectively)."
        )
    after = checked_names(new_names, len(before))
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is not None and new is None:
            raise RuntimeError(f"{failed} {old!r} is more specific than None at index {position}")
        if old is not None and old != new:
            raise RuntimeError(f"{failed} {old!r} is different from {new!r} at index {position}")
    return renamed(tensor, after)


def align_to(tensor: Tensor, names: Sequence[Any]) -> Tensor:
    """Run `Tensor.align_to`."""
    position = _one_ellipsis("align_to", names)
    if position is None:
        order = _typed("align_to", names)
        return align(tensor, checked_names(order, len(order)))
    before: Names = tensor._spec.names
    named_dims = _typed("align_to", [*names[:position], *names[position + 1 :]])
    if None in named_dims:
        raise RuntimeError(
            f"align_to: the desired order of dimensions cannot contain a None name, got {tuple(names)}"
        )
    checked_names(named_dims, len(named_dims))
    rest = [d for d, name in enumerate(before) if name is None or name not in named_dims]
    return _arranged(tensor, [*named_dims[:position], *rest, *named_dims[position:]])


def _refuse_unnamed(before: Names) -> None:
    raise RuntimeError(
        f"align_to: All input dims must be named. Found unnamed dim at index {before.index(None)} of "
        f"Tensor{describe(before)}"
    )


def align(tensor: Tensor, names: Names) -> Tensor:
    """Return a tensor with its dimensions in the order of `names`, new ones of size 1."""
    before: Names = tensor._spec.names
    if None in before:
        _refuse_unnamed(before)
    for name in before:
        if name not in names:
            raise RuntimeError(
                f"align_to: Cannot find dim {name!r} from Tensor{describe(names)} in desired alignment "
                f"{describe(names)}."
            )
    return _arranged(tensor, list(names))


def _arranged(tensor: Tensor, order: Sequence[str | int | None]) -> Tensor:
    """Return a view with the dimensions in `order`, by name or position; missing dimensions have size 1."""
    before: Names = tensor._spec.names
    sources = [d if isinstance(d, int) else before.index(d) if d in before else None for d in order]
    view = renamed(tensor, (None,) * len(before)).permute([d for d in sources if d is not None])
    for position, source in enumerate(sources):
        if source is None:
            view = view.unsqueeze(position)
    names = [d if not isinstance(d, int) else before[d] for d in order]
    view._spec = named(view._spec, checked_names(names, len(names)))
    return view


def align_tensors(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Run `align_tensors` of the public namespace, on tensors or on one list of them."""
    operands = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], tuple | list) else tensors
    for position, tensor in enumerate(operands):
        if not isinstance(tensor, TensorImpl):
            raise TypeError(
                f"align_tensors(): expected Tensor as element {position}, but got {type(tensor).__name__}"
            )
    if not operands:
        return ()
    longest: Tensor = max(operands, key=lambda tensor: tensor._spec.ndim)
    return tuple([align(tensor, longest._spec.names) for tensor in operands])
