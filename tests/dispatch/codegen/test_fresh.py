"""The generated files are what the generator would write now."""

import ast
from pathlib import Path

import pytest

from triten.dispatch.codegen import array_api
from triten.dispatch.codegen.__main__ import DISPATCH, generate
from triten.dispatch.codegen.location import ModelError

GENERATED = DISPATCH / "generated"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generate()


def shape(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the imports as a sorted list, and the other statements in order: a formatter changes neither."""
    imports: list[tuple[str, str]] = []
    rest: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            imports += [
                ("." * node.level + (node.module or ""), f"{a.name} as {a.asname}") for a in node.names
            ]
        elif isinstance(node, ast.Import):
            imports += [("", f"{a.name} as {a.asname}") for a in node.names]
        else:
            rest.append(ast.dump(node))
    return sorted(imports), rest


def test_no_file_is_missing_or_left_over(files: dict[str, str]) -> None:
    present = {
        str(path.relative_to(GENERATED)) for path in GENERATED.rglob("*") if path.suffix in (".py", ".pyi")
    }
    assert present == {*files, "kernel_index.py"}


def test_every_file_is_fresh(files: dict[str, str]) -> None:
    """Compare syntax, so that the test needs no formatter; ``--check`` compares the text."""
    stale = [name for name, text in files.items() if shape(text) != shape((GENERATED / name).read_text())]
    assert not stale, f"run python -m triten.dispatch.codegen: {stale}"


def test_files_say_where_they_come_from(files: dict[str, str]) -> None:
    for name in files:
        text = (GENERATED / name).read_text()
        assert "enerated by `python -m triten.dispatch.codegen`" in text, name


def test_nothing_generated_knows_the_machine(files: dict[str, str]) -> None:
    for name, text in files.items():
        assert str(Path(__file__).resolve().parents[3]) not in text, name


def test_elementwise_functions_of_the_standard_are_fresh() -> None:
    text = array_api.module_text(array_api.load_rows())
    assert shape(text) == shape(array_api.MODULE.read_text())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("name: f\n  operands: 3", "missing fields"),
        (
            "name: f\n  operands: 3\n  dtypes: all\n  summary: s\n  example: e\n  result: r",
            "1 or 2 operands, got 3",
        ),
        ("name: f\n  operands: 1\n  dtypes: some\n  summary: s\n  example: e\n  result: r", "not 'some'"),
        (
            "name: f\n  operands: 1\n  dtypes: all\n  summary: s\n  example: e\n  result: r\n  x: 1",
            "unknown fields",
        ),
    ],
    ids=["missing", "operands", "dtypes", "unknown"],
)
def test_rows_of_the_standard_that_cannot_be(row: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(f"- {row}\n")
    with pytest.raises(ModelError, match=message):
        array_api.load_rows(path)


def test_a_name_of_the_standard_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(2 * "- name: f\n  operands: 1\n  dtypes: all\n  summary: s\n  example: e\n  result: r\n")
    with pytest.raises(ModelError, match="f stands there twice"):
        array_api.load_rows(path)
