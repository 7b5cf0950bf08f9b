"""Mutants change what they say, stay Python, and are the same for the same seed."""

from __future__ import annotations

import ast
import textwrap

import pytest

from triten.tests.affected.tree import ROOT, Tree
from triten.tests.mutation.areas import AREAS, FORMULAS, draw, files_of
from triten.tests.mutation.mutants import formula_mutants, mutants_of


def every_mutant(text: str) -> set[str]:
    text = textwrap.dedent(text)
    return {mutant.apply(text) for mutant in mutants_of("x.py", text)} - {text}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", {"a <= b"}),
        ("a  >= b", {"a  > b"}),
        ("a not in b", {"a in b"}),
        ("a is b", {"a is not b"}),
        ("a < b == c", {"a <= b == c", "a < b != c"}),
        ("(a) + (b)", {"(a) - (b)"}),
        ("a * b // c", {"a + b // c", "a * b * c"}),
        ("a and b or c", {"a or b or c", "a and b and c"}),
        ("isinstance(a, b)", {"pass"}),
        ("x = -a", {"x = a"}),
        ("x = not a", {"x = a"}),
        ("x = 3", {"x = 4"}),
        ("x = True", {"x = False"}),
        ("x = a if b else c", {"x = a if not (b) else c"}),
        ("x[i] = a", {"pass"}),
        ("x += a", {"x -= a", "pass"}),
        ("f(a)", {"pass"}),
        ("raise E(a < b)", {"pass"}),
        ('"é"; x = ä + b', {'"é"; x = ä - b'}),
        ("x: int | None = a", set()),
        ('x = "%s" % a', set()),
        ("assert a < b", set()),
        ('chosen("tiles", 1)', set()),
    ],
)
def test_a_statement_has_these_mutants(before: str, after: set[str]) -> None:
    assert every_mutant(before) == after


def test_branches_are_swapped_and_signatures_stay() -> None:
    text = """
        def f(x: int | None, y=1) -> a | b:
            if x and y:
                return 2
    """
    changed = {line.strip() for each in every_mutant(text) for line in each.splitlines() if line not in text}
    assert changed == {
        "def f(x: int | None, y=2) -> a | b:",
        "if not (x and y):",
        "if x or y:",
        "return 3",
    }


def test_formulas_have_mutants_and_names_have_none() -> None:
    text = "- name: f(Tensor self, int k=1) -> Tensor\n  self: grad * (k - 1)\n  result: auto_linear\n"
    assert {mutant.apply(text) for mutant in formula_mutants("d.yaml", text)} == {
        text.replace("grad * (k", "grad + (k"),
        text.replace("(k - 1)", "(k + 1)"),
        text.replace("(k - 1)", "(k - 2)"),
    }
    assert {mutant.line for mutant in formula_mutants("d.yaml", text)} == {2}


def test_a_seed_draws_the_same_mutants_from_every_area() -> None:
    tree = Tree()
    drawn = draw(tree, 2 * len(AREAS), seed=3)
    assert drawn == draw(tree, 2 * len(AREAS), seed=3) != draw(tree, 2 * len(AREAS), seed=4)
    for number, area in enumerate(AREAS):
        assert drawn[number].path in files_of(tree, area)
    for mutant in drawn:
        text = (ROOT / mutant.path).read_text()
        assert mutant.apply(text) != text
        if mutant.path != FORMULAS:
            ast.parse(mutant.apply(text))
