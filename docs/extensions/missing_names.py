"""Which of PyTorch's public names triten has, and why it lacks the others.

PyTorch's names stand in `pytorch/public_names.json`, which `pytorch/collect_names.py` writes; the reasons in
`pytorch/missing_names.toml`. triten is asked.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from public_names import namespace_of

PYTORCH = Path(__file__).parents[1] / "pytorch"
NAMES = PYTORCH / "public_names.json"
REASONS = PYTORCH / "missing_names.toml"
_NOTHING = object()


@dataclass(frozen=True)
class Reason:
    """Why some names are missing: the patterns of their full names, and whether they are a part of PyTorch alone."""

    text: str
    patterns: tuple[str, ...]
    is_area: bool = False

    def covers(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


def pytorch_names() -> dict[str, list[str]]:
    """Return the public names of each PyTorch namespace."""
    found: dict[str, list[str]] = json.loads(NAMES.read_text())["namespaces"]
    return found


def reasons() -> list[Reason]:
    """Return the reasons, in the order of their table."""
    return [
        Reason(row["text"], tuple(row["names"].split()), row.get("area", False))
        for row in tomllib.loads(REASONS.read_text())["reason"]
    ]


def split(namespace: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names into those that triten has and those that it lacks."""
    have = [name for name in names if place_of(namespace, name) is not None]
    return have, [name for name in names if name not in set(have)]


def place_of(namespace: str, name: str) -> str | None:
    """Return triten's name for a name of a PyTorch namespace; None if there is none."""
    try:
        module = namespace_of(ours(namespace))
    except AttributeError:
        return None
    for spelling in (ours(name), name):
        if _attribute(module, spelling) is not _NOTHING:
            return f"{ours(namespace)}.{spelling}"
    if namespace == "torch" and name in _of_root():
        # The root has it where programs import it as PyTorch.
        homes = ("triten.storage", "triten.jit")
        home = next((each for each in homes if hasattr(import_module(each), name)), "torch")
        return f"{home}.{name}"
    return None


@cache
def _of_root() -> frozenset[str]:
    return frozenset(import_module("triten._torch_names").of_root())


def by_reason(
    namespace: str, missing: Sequence[str], table: Sequence[Reason]
) -> Iterator[tuple[Reason, list[str]]]:
    """Group the missing names of a namespace by the first reason that covers each. Raise KeyError for a name
    without one.
    """
    left = list(missing)
    for reason in table:
        covered = [name for name in left if reason.covers(f"{namespace}.{name}")]
        if covered:
            yield reason, covered
            left = [name for name in left if name not in covered]
    if left:
        raise KeyError(f"{REASONS.name} gives no reason for {namespace}: {' '.join(left)}")


def ours(name: str) -> str:
    """Convert a PyTorch name to triten's spelling, with "tensor" instead of "torch"."""
    if name == "torch" or name.startswith("torch."):
        return f"triten{name[5:]}"
    return name.replace("Torch", "Tensor").replace("torch", "tensor")


def _attribute(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except (AttributeError, ImportError):
        return _NOTHING
