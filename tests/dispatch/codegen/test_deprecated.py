"""`deprecated.yaml`: the meaning of an old signature, and the errors."""

from pathlib import Path

import pytest

from triten.dispatch.codegen.deprecated import load_deprecated
from triten.dispatch.codegen.load import Operators, load_functions
from triten.dispatch.codegen.model import ModelError

FUNCTIONS = """
- func: f(Tensor self, Tensor other, *, Scalar beta=1, Scalar alpha=1) -> Tensor
  dispatch: {CPU: f}
"""
OLD = "f(Scalar beta, Tensor self, Tensor other) -> Tensor"


@pytest.fixture
def operators(tmp_path: Path) -> Operators:
    folder = tmp_path / "native_functions"
    folder.mkdir()
    (folder / "family.yaml").write_text(FUNCTIONS)
    return load_functions(folder)


def load(tmp_path: Path, operators: Operators, text: str):
    path = tmp_path / "deprecated.yaml"
    path.write_text(text)
    return load_deprecated(path, operators)


def test_each_argument_of_today_gets_an_old_one_or_a_number(tmp_path, operators):
    found = load(tmp_path, operators, f"- name: {OLD}\n  aten: f(self, other, beta, 1)\n")
    assert found == {"f": ((OLD, (("self", "self"), ("other", "other"), ("beta", "beta"), ("alpha", 1))),)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"- name: {OLD}\n  aten: g(self, other, beta, 1)\n", "no call of an operator f"),
        (f"- name: {OLD}\n  aten: f(self, other, beta, 1\n", "no call of an operator f"),
        (f"- name: {OLD}\n  aten: f(self, other, 1, 1)\n", "does not give"),
        (f"- name: {OLD}\n  aten: f(self, other, beta)\n", "does not give"),
        (f"- name: {OLD}\n  aten: f(self, other, beta, gamma)\n", "neither an argument"),
        (f"- name: {OLD}\n", "has a name and aten"),
        (f"- name: {OLD}\n  aten: f(self, other, beta, 1)\n  why: not\n", "has a name and aten"),
        ("- name: f(Tensr self) -> Tensor\n  aten: f(self, other, beta, 1)\n", "unknown type 'Tensr'"),
    ],
)
def test_bad_entries_are_refused_with_their_place(tmp_path, operators, text, message):
    with pytest.raises(ModelError, match=message) as refused:
        load(tmp_path, operators, text)
    assert "deprecated.yaml: f: " in str(refused.value)
