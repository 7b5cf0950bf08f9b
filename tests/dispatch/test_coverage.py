"""The table of operators agrees with the registry, and the committed table is fresh."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import triten as tt
from triten.dispatch import coverage

COMMITTED = Path(coverage.__file__).with_name("coverage.md")


def row_of(operator: str) -> coverage.Row:
    return next(row for row in coverage.rows() if row.operator == operator)


def test_the_committed_table_is_what_the_registry_says() -> None:
    # In a process of its own: other tests define operators.
    command = [sys.executable, "-P", "-m", "triten.dispatch.coverage", "--format", "markdown"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == COMMITTED.read_text(), "run make coverage"


@pytest.mark.parametrize(
    ("operator", "cells"),
    [
        ("mm", ("kernel", "kernel", "kernel", "reverse, forward", "rule")),
        ("view", ("view", "view", "view", "reverse, forward", "rule")),
        ("max_pool2d", ("composite", "composite", "composite", "composite", "composite")),
        ("linalg_det", ("composite, host kernel", "composite", "composite", "composite", "composite")),
    ],
)
def test_cells_name_what_serves_an_operator(operator: str, cells: tuple[str, ...]) -> None:
    assert row_of(operator).cells()[1:-1] == cells


def test_forms_stand_beside_their_functional_operator() -> None:
    assert row_of("add.Tensor").forms == "add_.Tensor, add.out"
    assert not any(row.operator in ("add_.Tensor", "add.out") for row in coverage.rows())


def test_an_operator_without_kernels_has_empty_cells_and_is_not_whole() -> None:
    with tt.library.Library("aten", "FRAGMENT") as library:
        library.define("_covered_by_nothing(Tensor self) -> Tensor")
        row = row_of("_covered_by_nothing")
        assert row.cells()[1:5] == ("", "", "", "") and not row.is_whole
        library.impl("_covered_by_nothing", lambda x: x, "CPU")
        assert row_of("_covered_by_nothing").cpu == "kernel"


def test_core_aten_is_pytorchs_set() -> None:
    schemas = coverage.core_schemas()
    assert len(schemas) == 189
    assert schemas["relu"] == "aten::relu(Tensor self) -> Tensor"


def test_what_core_aten_lacks_is_named_and_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {
        "relu": "aten::relu(Tensor self) -> Tensor",
        "no_such": "aten::no_such(Tensor self) -> Tensor",
        "abs": "aten::abs(Tensor self, int dim) -> Tensor",
    }
    monkeypatch.setattr(coverage, "core_schemas", lambda: wanted)
    assert coverage.main(["--core", "--format", "json"]) == 1
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert [row["operator"] for row in report["operators"]] == ["abs", "relu"]
    assert report["missing"] == ["no_such", "abs, which is declared as aten::abs(Tensor self) -> Tensor"]
    assert "missing: no_such" in told.err
    monkeypatch.setattr(coverage, "core_schemas", lambda: {"relu": wanted["relu"]})
    assert coverage.main(["--core"]) == 0
    assert "Core ATen 1 of 1" in capsys.readouterr().out
