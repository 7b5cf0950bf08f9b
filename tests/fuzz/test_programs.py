"""Random programs: one per seed, mostly without errors; the fuzz targets find every difference and shrink the case."""

import json
import random

import numpy as np
import pytest

import triten as tt
from triten.tests.fuzz.campaign import AGREED
from triten.tests.fuzz.campaigns import campaign_named
from triten.tests.fuzz.campaigns.programs import Programs
from triten.tests.fuzz.programs.execution import as_json, from_json, run
from triten.tests.fuzz.programs.function import Function, outcome
from triten.tests.fuzz.programs.judgement import Difference, compare, compare_results, in_double
from triten.tests.fuzz.programs.writer import draw_program

INPUTS = ["v0 = tt.tensor([1.0, 2.0, 3.0]).requires_grad_()"]
BODY = ["v1 = v0 * 2", "v2 = v1.view(3)", "v2.add_(1)", "v0.add_(1)", "v1.sum().backward()"]
OTHERWISE = {
    "wrong value": "v2.add_(2)",
    "wrong written": "v2.add_(0.5); v2.add_(0.5)",
    "wrong aliasing": "v2 = v2 + 1; v1.data.add_(1)",
    "wrong dtype": "v2.add_(1); v2 = v2.to(tt.float64)",
    "refused otherwise": "v2.add_(tt.ones(5))",
    "wrong requires_grad": "v2.add_(1); v2 = v2.detach()",
}


def test_a_seed_gives_one_program():
    first, again, other = (draw_program(random.Random(seed), most=8) for seed in (3, 3, 4))
    assert first == again != other
    assert json.loads(json.dumps(first)) == list(first)


def test_most_statements_run():
    statements, refused = 0, 0
    for seed in range(6):
        inputs, body = draw_program(random.Random(seed))
        record = run(tt, [*inputs, *body])
        statements, refused = statements + len(body), refused + len(record.errors)
        assert not record.passed_over
        compare(run(tt, [*inputs, *body]), record, ("again", "once"), [*inputs, *body])
    assert statements > 40 and 0 < refused < statements / 4


@pytest.mark.parametrize("kind", OTHERWISE)
def test_each_difference_is_found(kind):
    statements = [*INPUTS, *BODY]
    expected = run(tt, statements)
    assert list(expected.errors) == [4] and expected.looks["v0"].grad is not None
    otherwise = [OTHERWISE[kind] if text == "v2.add_(1)" else text for text in statements]
    with pytest.raises(Difference) as found:
        compare(run(tt, otherwise), expected, ("triten", "PyTorch"), statements)
    assert found.value.kind == kind


def test_a_record_is_kept_as_json():
    statements = [
        *INPUTS,
        *BODY,
        "v3 = v0.detach().to(tt.complex64) * 1j",
        "v4 = v0 > 1",
        "v5 = v0.grad is None",
    ]
    record = run(tt, statements)
    stored = from_json(json.loads(json.dumps(as_json(record))))
    compare(record, stored, ("triten", "stored"), statements)
    stored.looks["v3"].values[0] += 1
    with pytest.raises(Difference, match="v3"):
        compare(record, stored, ("triten", "stored"), statements)


def test_gradients_are_as_near_as_the_narrowest_dtype_leaves_them():
    function = Function.of(["v0 = tt.ones(2).requires_grad_()"], ["v1 = v0.half() * 3"])
    found, expected = outcome(function, function.call), outcome(function, function.call)
    found.gradients["v0"] = found.gradients["v0"] * np.float32(1.001)
    compare_results(found, expected, exact=True)
    found.gradients["v0"] = found.gradients["v0"] * np.float32(1.5)
    with pytest.raises(Difference, match="gradient of v0"):
        compare_results(found, expected, exact=True)
    compare_results(found, expected, exact=True, compares_gradients=False)


def test_in_double_names_no_narrow_dtype():
    assert in_double(["v0 = tt.ones(2, dtype=tt.bfloat16).float().to(tt.complex64)"]) == [
        "v0 = tt.ones(2, dtype=tt.float64).double().to(tt.complex128)"
    ]


def test_a_smaller_case_has_fewer_statements():
    case = {"inputs": INPUTS, "body": BODY}
    sizes = [len(each["inputs"]) + len(each["body"]) for each in Programs().smaller(case)]
    assert max(sizes) < len(INPUTS) + len(BODY) and len(BODY) in sizes
    assert Programs().describe(case).splitlines()[1:] == [*INPUTS, *BODY]


@pytest.mark.parametrize(
    "name", ["programs_compiled", "programs_compiled_cuda", "programs_transformed", "programs_interpreted"]
)
def test_campaigns_without_an_oracle_run(name):
    campaign = campaign_named(name)
    assert campaign.run({"inputs": INPUTS, "body": BODY[:3], "loops": False}) is AGREED
