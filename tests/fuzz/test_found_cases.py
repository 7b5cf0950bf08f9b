"""Every fixed finding stays fixed, checked without an oracle in the tests' own process."""

import pytest

from triten.tests.fuzz.campaign import Finding
from triten.tests.fuzz.campaigns import campaign_named
from triten.tests.fuzz.child import run
from triten.tests.fuzz.found_cases import FoundCase, append, read, read_all

FOUND = list(read_all())


@pytest.mark.parametrize("found", FOUND, ids=[f"{f.campaign}-{n}" for n, f in enumerate(FOUND)])
def test_a_found_case_stays_mended(found):
    outcome = run(campaign_named(found.campaign), found.case, again=True)
    assert not isinstance(outcome, Finding), f"{outcome}; found as {found.kind}: {found.message}"


def test_a_found_case_is_read_as_it_was_written(tmp_path):
    found = FoundCase("planted", {"numbers": [93]}, "wrong value", "the sum is 93", "2026-01-01")
    append(tmp_path / "planted.jsonl", found)
    append(tmp_path / "planted.jsonl", found)
    assert read("planted", tmp_path) == [found, found]
    assert read("samples", tmp_path) == []
    assert list(read_all(tmp_path)) == [found, found]
