"""Initial values: their distributions, their fans, and what is refused."""

import math

import pytest

import triten as tt

init = tt.nn.init


@pytest.mark.parametrize(
    ("fill", "deviation"),
    [
        (lambda w: init.xavier_uniform_(w, 2.0), 2.0 * math.sqrt(2 / (60 * 9 + 40 * 9))),
        (lambda w: init.xavier_normal_(w), math.sqrt(2 / (60 * 9 + 40 * 9))),
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / (60 * 9))),
        (lambda w: init.kaiming_normal_(w, 1.0, "fan_out"), math.sqrt(1 / (40 * 9))),
        (lambda w: init.uniform_(w, -3, 3), math.sqrt(3)),
        (lambda w: init.normal_(w, 5.0, 0.25), 0.25),
    ],
)
def test_the_deviation_is_the_formulas(fill, deviation):
    w = tt.nn.Parameter(tt.empty(40, 60, 3, 3))
    tt.manual_seed(3)
    assert fill(w) is w and w.requires_grad and w.grad_fn is None
    assert w.std().item() == pytest.approx(deviation, rel=0.03)


def test_constants_identities_and_sparse_columns():
    w = tt.empty(3, 4)
    assert init.ones_(w).sum().item() == 12 and init.zeros_(w).sum().item() == 0
    assert init.constant_(w, 2.5)[1, 1].item() == 2.5
    assert init.eye_(w).sum().item() == 3
    tt.manual_seed(1)
    assert ((init.sparse_(tt.empty(10, 5), 0.25) == 0).sum(0) == 3).all().item()
    x = tt.randn(2, 4, 5, 5)
    kernel = init.dirac_(tt.empty(4, 2, 3, 3), groups=2)
    assert tt.equal(tt.nn.functional.conv2d(x, kernel, padding=1, groups=2), x)


def test_gains():
    assert [init.calculate_gain(n) for n in ("linear", "conv2d", "sigmoid", "tanh")] == [1, 1, 1, 5 / 3]
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.calculate_gain("nonsense"), "Unsupported nonlinearity nonsense"),
        (lambda: init.calculate_gain("leaky_relu", "x"), "not a valid number"),
        (lambda: init.xavier_normal_(tt.empty(3)), "fewer than 2 dimensions"),
        (lambda: init.kaiming_normal_(tt.empty(3, 3), mode="fan"), "Mode fan not supported"),
        (lambda: init.eye_(tt.empty(3)), "Only tensors with 2 dimensions"),
        (lambda: init.dirac_(tt.empty(3, 3)), "Only tensors with 3, 4, or 5 dimensions"),
        (lambda: init.dirac_(tt.empty(3, 3, 3), 2), "divisible by groups"),
        (lambda: init.sparse_(tt.empty(3), 0.5), "Only tensors with 2 dimensions"),
    ],
)
def test_what_has_no_such_values_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "name",
    [
        "constant", "dirac", "eye", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse", "uniform",
        "xavier_normal", "xavier_uniform",
    ],
)  # fmt: skip
def test_old_names_warn_and_do_the_same(name):
    given = {"constant": (2.0,), "sparse": (0.5,)}.get(name, ())
    shape = (2, 2, 3) if name == "dirac" else (2, 3)
    tt.manual_seed(0)
    wanted = getattr(tt.nn.init, f"{name}_")(tt.zeros(shape), *given)
    tt.manual_seed(0)
    with pytest.warns(
        FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"
    ):
        made = getattr(tt.nn.init, name)(tt.zeros(shape), *given)
    assert made.tolist() == wanted.tolist()
