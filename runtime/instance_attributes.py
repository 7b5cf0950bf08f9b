"""Attributes that a subclass of `Tensor` stores in its instances: their dict, and the slots of the class."""

from __future__ import annotations

from typing import Any

from .tensor_impl import TensorImpl


def added_slots(cls: type[TensorImpl]) -> list[str]:
    """Return the names of the slots that a subclass adds to `TensorImpl`'s, as attributes.

    `copyreg` has such a function, but stores its answer in the class.
    """
    attributes: list[str] = []
    for owner in cls.__mro__:
        slots = () if owner is TensorImpl else vars(owner).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            attributes.append(f"_{owner.__name__.lstrip('_')}{name}" if is_private else name)
    return attributes


def slot_values(tensor: TensorImpl) -> dict[str, Any]:
    """Return the values of the added slots that are set."""
    return {name: getattr(tensor, name) for name in added_slots(type(tensor)) if hasattr(tensor, name)}


def blank_like(tensor: TensorImpl) -> Any:
    """Return a tensor of the same class with empty slots of `TensorImpl`, and with the same added attributes.

    Args:
        tensor: A tensor of a subclass. Its dict is shared, the values of its added slots are copied.
    """
    made = tensor._blank()
    made.__dict__ = tensor.__dict__
    for name, value in slot_values(tensor).items():
        setattr(made, name, value)
    return made
