"""Runs a program's statements in a library and records what can be observed of its variables."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Look:
    """Observable state of a tensor."""

    facts: dict[str, Any]
    values: np.ndarray
    grad: "Look | None" = None


@dataclass
class Record:
    """Record of a program's run.

    Attributes:
        errors: The exception's class and message for each statement that raised.
        looks: The observable state of each variable's tensor; the `repr` of other variables.
        shared: Variables grouped by the memory that they use, and by object identity.
        passed_over: Statements that name an undefined variable.
    """

    errors: dict[int, tuple[type[Exception], str]] = field(default_factory=dict)
    looks: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, list[list[str]]] = field(default_factory=dict)
    passed_over: set[int] = field(default_factory=set)


def run(
    library: Any,
    statements: Iterable[str],
    names: dict[str, Any] | None = None,
    *,
    settle: bool = False,
    wide: bool = False,
) -> Record:
    """Run statements one by one; one that raises is recorded, and the next runs.

    Args:
        library: what `tt` means, triten or PyTorch.
        statements: the program. A statement that names a variable that is not there is passed over.
        names: variables that are there before.
        settle: ask for each variable's history after each statement. PyTorch takes a view for a leaf, to which it
            refuses to write, until it is asked.
        wide: with float64 for the default dtype.
    """
    if wide:
        before = library.get_default_dtype()
        library.set_default_dtype(library.float64)
        try:
            return run(library, statements, names, settle=settle)
        finally:
            library.set_default_dtype(before)
    record = Record()
    variables: dict[str, Any] = {"tt": library, **(names or {})}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        born: dict[str, tuple[int, int]] = {}
        for number, text in enumerate(statements):
            try:
                exec(compile(text, f"<statement {number}>", "exec"), variables)
            except NameError:
                record.passed_over.add(number)
                continue
            except Exception as error:
                record.errors[number] = type(error), str(error)
            for name, value in variables.items():
                if not isinstance(value, library.Tensor):
                    continue
                if born.get(name, (0, 0))[0] != id(value):
                    born[name] = id(value), value._version
                if settle:
                    _asked(QUESTIONS["is_leaf"], value)
        observe(library, variables, record, {name: version for name, (_, version) in born.items()})
    return record


def observe(library: Any, variables: dict[str, Any], record: Record, born: Mapping[str, int]) -> None:
    """Record each variable whose name a program can have."""
    chosen = {name: value for name, value in variables.items() if name[:1] == "v" and name[1:].isdigit()}
    for name, value in chosen.items():
        record.looks[name] = (
            look(value, born.get(name, 0)) if isinstance(value, library.Tensor) else repr(value)
        )
    tensors = {name: value for name, value in chosen.items() if isinstance(value, library.Tensor)}
    record.shared["object"] = _groups({name: id(value) for name, value in tensors.items()})
    record.shared["memory"] = _groups(
        {
            name: _asked(lambda each: each.untyped_storage().data_ptr(), value)
            for name, value in tensors.items()
            if value.numel()
        }
    )


def _groups(keys: dict[str, int]) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _offset(tensor: Any) -> int:
    """Return a view's storage offset, relative to its base."""
    base = tensor._base
    return 0 if base is None else int(tensor.storage_offset() - base.storage_offset())


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda tensor: tuple(tensor.shape),
    "stride": lambda tensor: (
        [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
        if tensor.numel()
        else None
    ),
    "storage_offset": lambda tensor: _offset(tensor) if tensor.numel() else None,
    "requires_grad": lambda tensor: tensor.requires_grad,
    "is_leaf": lambda tensor: tensor.is_leaf,
    "is_conj": lambda tensor: tensor.is_conj(),
    "is_neg": lambda tensor: tensor.is_neg(),
    "retains_grad": lambda tensor: tensor.retains_grad,
}


def _asked(question: Callable[[Any], Any], tensor: Any) -> Any:
    try:
        return question(tensor)
    except RuntimeError as error:
        return type(error).__name__


def look(tensor: Any, born: int | None = None) -> Look:
    """Return a tensor's observable state, for either library; `born` is the version that it began with.

    The state has the number of writes since then, not the version: a composite's result may begin with any
    version.
    """
    facts = {fact: _asked(question, tensor) for fact, question in QUESTIONS.items()}
    facts["dtype"] = str(tensor.dtype).partition(".")[2]
    facts["written"] = 0 if born is None else tensor._version - born
    grad = None if born is None else _asked(lambda tensor: tensor.grad, tensor)
    return Look(facts, array(tensor), None if grad is None or isinstance(grad, str) else look(grad))


def array(tensor: Any) -> np.ndarray:
    """Return a tensor's values; 16-bit floats become float32."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if _asked(lambda each: each.untyped_storage().data_ptr(), plain) == "RuntimeError":
        return np.zeros(tuple(plain.shape))  # PyTorch's zeros without memory
    if str(plain.dtype).endswith("complex32"):
        return np.stack([array(plain.real), array(plain.imag)])
    if str(plain.dtype).endswith(("bfloat16", "float16")):
        plain = plain.float()
    return np.array(plain.numpy())


def as_json(record: Record) -> dict[str, Any]:
    """Return a record as JSON."""

    def one(look: Any) -> Any:
        if not isinstance(look, Look):
            return look
        numbers = [complex(x).real for x in look.values.flat], [complex(x).imag for x in look.values.flat]
        if look.values.dtype.kind in "iub":
            numbers = [int(x) for x in look.values.flat], []
        return {
            "facts": look.facts,
            "values": [look.values.dtype.str, list(look.values.shape), *numbers],
            "grad": None if look.grad is None else one(look.grad),
        }

    return {
        "errors": {str(n): [kind.__name__, text] for n, (kind, text) in record.errors.items()},
        "looks": {name: one(look) for name, look in record.looks.items()},
        "shared": record.shared,
    }


def from_json(stored: dict[str, Any]) -> Record:
    """Return the record that `as_json` stored; a new class stands for each exception's class."""

    def one(look: Any) -> Any:
        if isinstance(look, str):
            return look
        kind, shape, real, imaginary = look["values"]
        values = np.array(real, dtype=kind) if not imaginary else np.array(real) + 1j * np.array(imaginary)
        facts = {k: tuple(v) if k == "shape" else v for k, v in look["facts"].items()}
        with np.errstate(all="ignore"):
            values = values.real.astype(kind) if np.dtype(kind).kind != "c" else values.astype(kind)
        return Look(facts, values.reshape(shape), look["grad"] and one(look["grad"]))

    return Record(
        {int(n): (type(kind, (Exception,), {}), text) for n, (kind, text) in stored["errors"].items()},
        {name: one(look) for name, look in stored["looks"].items()},
        stored["shared"],
    )
