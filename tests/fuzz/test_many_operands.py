"""The fuzz target of kernels with many operands passes on the library and detects an omitted step."""

import random

import pytest

from triten.tests.fuzz.campaign import AGREED, Finding
from triten.tests.fuzz.campaigns import campaign_named, many_operands

CASE = {
    "inputs": 65,
    "outputs": 2,
    "length": 0,
    "shape": [7],
    "steps": ["add", "relu"],
    "grad": True,
    "seed": 3,
}


def test_a_case_agrees() -> None:
    assert campaign_named("many_operands").run(CASE) is AGREED


def test_cases_are_drawn_on_both_sides_of_the_bound() -> None:
    drawn = [campaign_named("many_operands").draw(random.Random(seed)) for seed in range(60)]
    assert min(case["inputs"] for case in drawn) < 60 < max(case["inputs"] for case in drawn)


def test_a_result_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = many_operands.tt.compile
    monkeypatch.setattr(
        many_operands.tt, "compile", lambda f, **options: compiled(lambda x: [y * 2 for y in f(x)], **options)
    )
    campaign = campaign_named("many_operands")
    found = campaign.run(CASE)
    assert isinstance(found, Finding) and found.kind == "wrong value"
    assert any(case["inputs"] == 32 for case in campaign.smaller(CASE))
