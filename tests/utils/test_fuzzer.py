"""Operands of random sizes and layouts."""

import math

import pytest

import triten as tt
from triten.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias


def test_a_seed_gives_the_same_operands():
    def made():
        return list(
            Fuzzer(
                [FuzzedParameter("n", 1, 64, "loguniform"), FuzzedParameter("p", 0.0, 1.0, "uniform")],
                [FuzzedTensor("x", ("n", 3)), FuzzedTensor("y", ("n",), dtype=tt.int32)],
                seed=7,
            ).take(5)
        )

    for (one, _, first), (other, _, second) in zip(made(), made(), strict=True):
        assert first == second and tt.equal(one["x"], other["x"]) and tt.equal(one["y"], other["y"])
        assert one["x"].shape == (first["n"], 3) and one["y"].dtype is tt.int32
        assert 1 <= first["n"] <= 64 and isinstance(first["n"], int) and 0 <= first["p"] <= 1
        assert one["y"].min() >= 1 and one["y"].max() <= 126


def test_layouts_and_steps():
    fuzzer = Fuzzer(
        [FuzzedParameter("dim", distribution={2: 0.5, 3: 0.5}), FuzzedParameter("step", 1, 2, "uniform")],
        [FuzzedTensor("x", (4, 5, 6), ("step", 3), probability_contiguous=0.3, dim_parameter="dim")],
        seed=1,
    )
    layouts = set()
    for tensors, properties, params in fuzzer.take(40):
        x, known = tensors["x"], properties["x"]
        assert x.shape == (4, 5, 6)[: params["dim"]]
        assert known["steps"] == (params["step"], 3, 1)[: params["dim"]] and known["numel"] == x.numel()
        assert known["is_contiguous"] is x.is_contiguous() and known["dtype"] == str(tt.float32)
        layouts.add((tuple(known["order"]), params["step"]))
    assert len(layouts) > 5


def test_constraints_reject():
    fuzzer = Fuzzer(
        [FuzzedParameter("n", 1, 100, "uniform"), FuzzedParameter("m", 1, 100, "uniform", strict=True)],
        [FuzzedTensor("x", ("n", "m"), min_elements=50, max_elements=2000, max_allocation_bytes=7000)],
        constraints=[lambda params: params["n"] % 2 == 0],
        seed=3,
    )
    assert fuzzer.rejection_rate == 0.0
    for tensors, _, params in fuzzer.take(20):
        assert params["n"] % 2 == 0 and 50 <= tensors["x"].numel() <= 1750
    assert 0.0 < fuzzer.rejection_rate < 1.0
    hopeless = Fuzzer(
        [FuzzedParameter("n", 1, 2, "uniform")], [FuzzedTensor("x", ("n",), min_elements=3)], seed=0
    )
    with pytest.raises(ValueError, match="Failed to generate a set of valid parameters"):
        list(hopeless.take(1))
    assert hopeless.rejection_rate == 1.0


def test_aliases():
    fuzzer = Fuzzer(
        [
            FuzzedParameter("a", distribution={ParameterAlias("b"): 1.0}),
            FuzzedParameter("b", distribution={ParameterAlias("c"): 1.0}),
            [FuzzedParameter("c", 2, 9, "uniform")],
        ],
        [],
        seed=0,
    )
    assert all(params["a"] == params["b"] == params["c"] for _, _, params in fuzzer.take(4))
    circle = [
        FuzzedParameter("a", distribution={ParameterAlias("b"): 1.0}),
        FuzzedParameter("b", distribution={ParameterAlias("a"): 1.0}),
    ]
    with pytest.raises(ValueError, match="cycle detected"):
        list(Fuzzer(circle, [], seed=0).take(1))
    assert repr(ParameterAlias("a")) == "ParameterAlias[alias_to: a]"


def test_tensors_of_ones_own(device):
    def made(size, dtype, n, **others):
        return tt.full(size, float(n), dtype=dtype)

    fuzzer = Fuzzer(
        [FuzzedParameter("n", 2, 5, "uniform")],
        [FuzzedTensor("x", ("n", 2), cuda=device == "cuda", tensor_constructor=made)],
        seed=0,
    )
    for tensors, _, params in fuzzer.take(2):
        x = tensors["x"]
        assert x.device.type == device and x.sum().item() == 2 * params["n"] ** 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"minval": 1, "maxval": 2, "distribution": "normal"}, "Unknown distribution: normal"),
        ({"distribution": {1: -0.5, 2: 1.5}}, "Probabilities cannot be negative"),
        ({"distribution": {1: 0.5, 2: 0.4}}, "Distribution is not normalized"),
        ({"minval": 1, "distribution": {1: 1.0}}, "'minval' and 'maxval' must be None"),
        ({"minval": 3, "maxval": 2, "distribution": "uniform"}, "in this order, got 3 and 2"),
        ({"minval": 3, "distribution": "uniform"}, "in this order, got 3 and None"),
    ],
)
def test_parameters_that_cannot_be(arguments, message):
    with pytest.raises(AssertionError, match=message):
        FuzzedParameter("n", **arguments)


def test_names_are_apart():
    with pytest.raises(ValueError, match="Duplicate names in parameters and tensors"):
        Fuzzer([FuzzedParameter("x", 1, 2, "uniform")], [FuzzedTensor("x", (1,))])


def test_logarithms_are_uniform():
    parameter = FuzzedParameter("n", 1, 2**20, "loguniform")
    fuzzer = Fuzzer([parameter], [], seed=0)
    logs = [math.log2(params["n"]) for _, _, params in fuzzer.take(400)]
    assert 9 < sum(logs) / len(logs) < 11
