"""The table of PyTorch's modules and names that lie elsewhere here."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, util

import pytest

from triten import _torch_modules
from triten._torch_modules import ALIASES, MODULES, NAMES

ROWS = [(module, place) for table in (MODULES, NAMES) for module, row in table.items() for place in row]


@pytest.mark.parametrize(("module", "place"), ROWS)
def test_every_name_is_where_the_table_says(module: str, place: str) -> None:
    row = {**MODULES, **NAMES}[module]
    for word in row[place].split():
        name = word.partition("=")[0]
        found = _torch_modules._find(f"triten.{module}", row, name)
        if place.startswith("!"):
            with pytest.raises(NotImplementedError, match=rf"torch\.{module}\.{name} is not supported: "):
                found()


def test_modules_are_attributes_of_their_package() -> None:
    packages = sorted({name.rpartition(".")[0] for name in MODULES} - {""})
    chains = ", ".join(f"torch.{name}" for name in MODULES if not name.startswith("functorch"))
    program = (
        f"import torch, {', '.join(f'torch.{each}' for each in packages if each != 'functorch')}\n{chains}"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "triten.as_torch", "-c", program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_table_makes_no_module_that_is_there() -> None:
    def is_file(name: str) -> bool:
        parent = name.rpartition(".")[0]
        if parent in MODULES or not hasattr(import_module(f"triten.{parent}".rstrip(".")), "__path__"):
            return False
        return util.find_spec(f"triten.{name}") is not None

    assert not [name for name in (*MODULES, *ALIASES) if is_file(name)]
    assert all(util.find_spec(f"triten.{own}") is not None for own in ALIASES.values())
    assert not [name for name in NAMES if import_module(f"triten.{name}".rstrip(".")) is None]
