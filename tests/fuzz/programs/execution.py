"""Runs a program's statements in a library and records what can be observed of its variables."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Look:
    """What can be seen of a tensor."""

    facts: dict[str, Any]
    values: np.ndarray
    grad: "Look | None" = None


@dataclass
class Record:
    """What a program did.

    Attributes:
        errors: the exception's class and message of each statement that raised.
        looks: each variable's tensor; other variables by their value.
        shared: variables grouped by the memory that they look into, and by the object that they are.
    """

    errors: dict[int, tuple[type[Exception], str]] = field(default_factory=dict)
    looks: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, list[list[str]]] = field(default_factory=dict)


def run(library: Any, statements: Iterable[str], names: dict[str, Any] | None = None) -> Record:
    """Run statements one by one; one that raises is recorded, and the next runs.

    Args:
        library: what `tt` means, triten or PyTorch.
        statements: the program. A statement that names a variable that is not there is passed over.
        names: variables that are there before.
    """
    record = Record()
    variables: dict[str, Any] = {"tt": library, **(names or {})}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number, text in enumerate(statements):
            try:
                exec(compile(text, f"<statement {number}>", "exec"), variables)
            except NameError:
                continue
            except Exception as error:
                record.errors[number] = type(error), str(error)
        observe(library, variables, record)
    return record


def observe(library: Any, variables: dict[str, Any], record: Record) -> None:
    """Record each variable whose name a program can have."""
    chosen = {name: value for name, value in variables.items() if name[:1] == "v" and name[1:].isdigit()}
    for name, value in chosen.items():
        record.looks[name] = look(value) if isinstance(value, library.Tensor) else value
    tensors = {name: value for name, value in chosen.items() if isinstance(value, library.Tensor)}
    record.shared["object"] = _groups({name: id(value) for name, value in tensors.items()})
    record.shared["memory"] = _groups(
        {
            name: value.untyped_storage().data_ptr()
            for name, value in tensors.items()
            if value.untyped_storage().nbytes()
        }
    )


def _groups(keys: dict[str, int]) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def look(tensor: Any, *, with_grad: bool = True) -> Look:
    """What can be seen of a tensor of either library."""
    facts = {
        "dtype": str(tensor.dtype).partition(".")[2],
        "shape": tuple(tensor.shape),
        "stride": tuple(tensor.stride()) if tensor.numel() else None,
        "storage_offset": tensor.storage_offset(),
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "_version": tensor._version,
        "is_conj": tensor.is_conj(),
        "is_neg": tensor.is_neg(),
        "_is_view": tensor._is_view(),
        "retains_grad": tensor.retains_grad,
        "storage_nbytes": tensor.untyped_storage().nbytes(),
    }
    grad = tensor.grad if with_grad else None
    return Look(facts, array(tensor), None if grad is None else look(grad, with_grad=False))


def array(tensor: Any) -> np.ndarray:
    """A tensor's values; 16-bit floats as float32."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if str(plain.dtype).endswith(("bfloat16", "float16")):
        plain = plain.float()
    return np.array(plain.numpy())
