"""Prose gets no worse: `language.py` says what counts, and its counts of each folder may fall and not grow."""

import json
import subprocess

import pytest

from triten.tests.docs import language


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("What makes an operand is computed.", "sentence without a subject"),
        ("It holds. Where it lies, nothing moves.", "sentence without a subject"),
        ("The verdicts are printed.", "house term"),
        ("See [](page.md).", "link without text"),
    ],
)
def test_a_finding(text: str, rule: str) -> None:
    assert rule in [found for found, _ in language.in_markdown(text)]


def test_docstrings_open_with_a_verb() -> None:
    assert [rule for rule, _ in language.in_python('def f():\n    """The sum."""')] == [
        "docstring without a verb"
    ]
    assert list(language.in_python('def f():\n    """Return the sum."""')) == []


def test_findings_do_not_grow() -> None:
    if subprocess.run(["git", "rev-parse"], cwd=language.ROOT, capture_output=True).returncode:
        pytest.skip("no git checkout")
    kept = json.loads(language.COUNTS.read_text())
    grown = {
        f"{folder}: {rule}": (kept.get(folder, {}).get(rule, 0), count)
        for folder, rules in language.counts().items()
        for rule, count in rules.items()
        if count > kept.get(folder, {}).get(rule, 0)
    }
    assert grown == {}, "run language.py with the changed files; write the counts anew where they fell"
