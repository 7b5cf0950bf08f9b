"""Which documentation every name has: its own, that of its functional form, or that of the name it is an alias of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .docs import OperatorDocs
from .location import ModelError
from .model import NativeFunction
from .shared_arguments import SHARED_ARGUMENTS


@dataclass(frozen=True)
class Documentation:
    """The documentation of a name: `docs`, which stand on an entry of the name `written_for`."""

    name: str
    written_for: str
    docs: OperatorDocs

    @property
    def is_in_place(self) -> bool:
        """Whether the name is the in-place form of what the entry documents."""
        return self.name.endswith("_") and not self.written_for.endswith("_")

    @property
    def alias_of(self) -> str | None:
        """The name whose documentation this is, in the same form; None unless it is an alias."""
        same = self.written_for + "_" * self.is_in_place
        return None if self.name == same else same


def python_name(argument: str) -> str:
    """Return an argument's name in documentation."""
    return "input" if argument == "self" else argument


def documentation_of(functions: Iterable[NativeFunction]) -> dict[str, Documentation]:
    """Return the documentation of every documented name.

    Raises ModelError for docs that do not stand on the first entry of their name, aliases of names without docs of
    their own, arguments that do not exist, and arguments that are not described.
    """
    names: dict[str, list[NativeFunction]] = {}
    entries: dict[str, NativeFunction] = {}
    firsts: dict[tuple[str, str], NativeFunction] = {}
    for f in functions:
        names.setdefault(f.base, []).append(f)
        first = firsts.setdefault((f.family, f.base), f)
        if f.docs is None:
            continue
        if f is not first:
            raise ModelError(f"{f.location}: the docs of {f.base} belong on its first entry, {first.name}")
        if f.base in entries:
            raise ModelError(
                f"{f.location}: the docs of {f.base} stand at {entries[f.base].location} already"
            )
        entries[f.base] = f
    documented = {name: _own(f, entries) for name, f in entries.items()}
    for name in names:
        functional = name.removesuffix("_")
        if name not in documented and functional in documented:
            known = documented[functional]
            documented[name] = Documentation(name, known.written_for, known.docs)
    for name, documentation in documented.items():
        _check_arguments(documentation, names[name])
    return documented


def _own(entry: NativeFunction, entries: Mapping[str, NativeFunction]) -> Documentation:
    docs = entry.docs
    assert docs is not None
    if not docs.alias_of:
        return Documentation(entry.base, entry.base, docs)
    original = entries.get(docs.alias_of)
    if original is None or original.docs is None or original.docs.alias_of:
        raise ModelError(f"{entry.location}: docs: alias_of {docs.alias_of}, a name without docs of its own")
    return Documentation(entry.base, docs.alias_of, original.docs)


def parameters_of(overloads: Iterable[NativeFunction]) -> list[str]:
    """Return the Python names of the overloads' arguments, except for results and dimension names."""
    return list(
        dict.fromkeys(
            python_name(a.name)
            for f in overloads
            if f.python_binding is not False
            for a in f.schema.arguments
            if not a.is_out and "Dimname" not in str(a.type)
        )
    )


def _check_arguments(documentation: Documentation, overloads: list[NativeFunction]) -> None:
    described = dict(documentation.docs.args)
    if documentation.is_in_place:
        described.setdefault("input", "")
    taken = parameters_of(overloads)
    location = overloads[0].location
    suffix = "" if documentation.name == documentation.written_for else f" of {documentation.written_for}"
    for name in taken:
        if name not in described and name not in SHARED_ARGUMENTS:
            raise ModelError(
                f"{location}: docs{suffix}: the argument {name} of {documentation.name} is not described in args"
            )
    known = {python_name(a.name) for f in overloads for a in f.schema.arguments if not a.is_out}
    if any(f.form == "out" for f in overloads):
        known.add("out")
    for name in described:
        if not suffix and name not in known:
            raise ModelError(
                f"{location}: docs: args: {name} is no argument of {documentation.name}: {taken}"
            )


__all__ = ["Documentation", "documentation_of", "parameters_of", "python_name"]
