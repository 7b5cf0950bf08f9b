"""Mutated samples without PyTorch: arguments as JSON, mutations, shrinking, programs, what is stored of a finding."""

import json
import random

import numpy as np
import pytest

import triten as tt
from triten.tests.fuzz.campaign import AGREED, REFUSED_ALIKE, Finding
from triten.tests.fuzz.campaigns.samples import shrinking
from triten.tests.fuzz.campaigns.samples.expectations import replay
from triten.tests.fuzz.campaigns.samples.mutations import OF_TENSORS
from triten.tests.fuzz.campaigns.samples.mutations_of_numbers import OF_NUMBERS, output
from triten.tests.fuzz.campaigns.samples.programs import program
from triten.tests.fuzz.campaigns.samples.values import (
    Builder,
    array_of_tensor,
    new_tensor,
    reached,
    storage_of,
)


def added(dtype="float32"):
    """``add(x, y, alpha=2)`` of a transposed and an offset view."""
    values = np.arange(8).astype("float32")
    return {
        "call": "add",
        "device": "cpu",
        "backward": False,
        "storages": [storage_of(dtype, values)],
        "arguments": [{"tensor": [0, [2, 3], [1, 2], 0]}, {"tensor": [0, [3], [1], 5]}],
        "named": {"alpha": 2},
    }


def stored(case, results):
    expected = [
        {
            "dtype": str(array.dtype),
            "sizes": list(array.shape),
            "strides": [],
            "data": storage_of(str(array.dtype), array)[1],
        }
        for array in results
    ]
    return case | {"expected": {"results": expected}}


SUM = np.array([[10, 14, 18], [11, 15, 19]], "float32")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64", "complex32", "bool"])
def test_arguments_are_made_as_they_are_written(dtype):
    case = added(dtype)
    builder = Builder(case, tt)
    [x, y], named = builder.arguments()
    assert (x.shape, x.stride(), y.storage_offset(), named) == ((2, 3), (1, 2), 5, {"alpha": 2})
    assert x.untyped_storage() is y.untyped_storage()
    assert str(x.dtype) == f"triten.{dtype}"
    assert x.numpy().tobytes() == array_of_tensor(case, case["arguments"][0]).tobytes()


def test_a_stored_case_is_held_to_what_is_expected():
    case = added()
    assert replay(stored(case, [SUM])) is AGREED
    wrong = replay(stored(case, [SUM + 1]))
    assert isinstance(wrong, Finding) and wrong.kind == "wrong value"
    other = replay(stored(case, [SUM.astype("float64")]))
    assert isinstance(other, Finding) and other.kind == "wrong type"
    refused = replay(case | {"expected": {"raises": "TypeError", "text": ""}})
    assert isinstance(refused, Finding) and refused.kind == "refused otherwise"
    case["named"]["dim"] = 1
    assert replay(case | {"expected": {"raises": "TypeError", "text": ""}}) is REFUSED_ALIKE


def test_a_program_makes_the_call():
    made = {}
    exec(program(added()), made)
    assert made["result"].tolist() == SUM.tolist()


@pytest.mark.parametrize("mutation", [*OF_TENSORS, *OF_NUMBERS], ids=lambda mutation: mutation.__name__)
def test_a_mutation_repeats_and_can_be_made(mutation):
    changed = 0
    for seed in range(30):
        one, two = added(), added()
        for case in (one, two):
            case["named"] |= {"dim": [0, 1], "rounding_mode": "floor"}
            mutation(random.Random(seed), case)
        text = json.dumps(one)
        assert text == json.dumps(two)
        changed += json.loads(text) != added()
        case = shrinking.without_unused_storages(json.loads(text))
        Builder(case, tt).arguments()
        assert not case["storages"] or "storages" in program(case) or "s0" in program(case)
    assert changed > 10


def test_outputs_are_drawn_of_every_kind():
    kinds = set()
    for seed in range(60):
        case = added()
        output(random.Random(seed), case, (((2, 3), "float32"),), True)
        out = case["named"]["out"]
        if isinstance(out, dict) and "tensor" in out:
            storage, sizes, strides, _ = out["tensor"]
            kinds.add((case["storages"][storage][0], tuple(sizes), tuple(strides), storage))
    assert {
        ("float32", (2, 3), (3, 1), 1),
        ("float32", (2, 3), (6, 2), 1),
        ("float32", (2, 3), (1, 2), 1),
    } <= kinds
    assert any(storage == 0 for *_, storage in kinds)
    assert any(dtype != "float32" for dtype, *_ in kinds)


def test_a_case_shrinks_to_what_its_fault_needs():
    case = added()
    case["arguments"].append(new_tensor(case, "int16", np.arange(20).reshape(4, 5)))

    def fails(case):
        return any(t.numel() > 1 for t in Builder(case, tt).arguments()[0])

    while (smaller := next(filter(fails, shrinking.smaller(case)), None)) is not None:
        case = shrinking.without_unused_storages(smaller)
    assert case["named"] == {}
    [tensor] = case["arguments"]
    assert sorted(tensor["tensor"][1]) == [1, 2]
    assert array_of_tensor(case, tensor).tolist() in ([[1.0, 1.0]], [[1.0], [1.0]])


def test_every_call_that_is_stored_is_public():
    from triten.tests.fuzz.found_cases import read

    for found in read("samples"):
        assert callable(reached(tt, found.case["call"]))


def test_samples_are_held_against_pytorch():
    pytest.importorskip("torch")
    from triten.tests.fuzz.campaigns.samples.oracle import run

    case = added()
    assert run(case) is AGREED
    case["arguments"][1]["tensor"] = [0, [2], [1], 5]
    assert run(case) is REFUSED_ALIKE
