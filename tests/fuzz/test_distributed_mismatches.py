"""The fuzz target of mismatched collective calls reports a mismatch as a finding if the check is off."""

from typing import Any

import pytest

from triten.tests.distributed.ranks import needs_mpi
from triten.tests.fuzz.campaign import REFUSED_ALIKE, Finding
from triten.tests.fuzz.campaigns import campaign_named


def _call(**other: Any) -> dict[str, Any]:
    call = {"name": "all_reduce", "dtype": "int32", "count": 7, "op": "SUM", "root": 0, "async": False}
    return call | other


CASE = {"size": 2, "steps": [{"calls": [_call(), _call(dtype="float32")]}, {"calls": [_call(), _call()]}]}


@needs_mpi
@pytest.mark.parametrize("check", "01")
def test_a_difference_is_found_where_it_is_not_refused(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITEN_DISTRIBUTED_CHECK", check)
    outcome = campaign_named("distributed_mismatches").replay(CASE)
    assert outcome is REFUSED_ALIKE if check == "1" else isinstance(outcome, Finding), outcome
