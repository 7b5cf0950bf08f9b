"""Calls with PyTorch's deprecated argument order give the same result, and a warning that names both
signatures.
"""

import warnings

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core import deprecated_call

X, Y = np.float32([1, 2]), np.float32([10, 20])
M = np.float32([[1, 2], [3, 4]])
B = np.float32([[[1, 2], [3, 4]]])


def of(*arrays):
    return [tt.from_numpy(a.copy()) for a in arrays]


FUNCTIONS = {
    "add": (lambda x, y: tt.add(x, 2, y), X + 2 * Y, (X, Y)),
    "sub": (lambda x, y: tt.sub(x, 2, y), X - 2 * Y, (X, Y)),
    "addcmul": (lambda x, y: tt.addcmul(x, 2, y, y), X + 2 * Y * Y, (X, Y)),
    "addcdiv": (lambda x, y: tt.addcdiv(x, 2, x, y), X + 2 * X / Y, (X, Y)),
    "addmm": (lambda m: tt.addmm(2, m, 3, m, m), 2 * M + 3 * (M @ M), (M,)),
    "addmm without alpha": (lambda m: tt.addmm(2, m, m, m), 2 * M + M @ M, (M,)),
    "addmv": (lambda x, m: tt.addmv(2, x, 3, m, x), 2 * X + 3 * (M @ X), (X, M)),
    "addmv without alpha": (lambda x, m: tt.addmv(2, x, m, x), 2 * X + M @ X, (X, M)),
    "addbmm": (lambda m, b: tt.addbmm(2, m, 3, b, b), 2 * M + 3 * (B @ B)[0], (M, B)),
    "addbmm without alpha": (lambda m, b: tt.addbmm(2, m, b, b), 2 * M + (B @ B)[0], (M, B)),
    "baddbmm": (lambda b: tt.baddbmm(2, b, 3, b, b), 2 * B + 3 * (B @ B), (B,)),
    "baddbmm without alpha": (lambda b: tt.baddbmm(2, b, b, b), 2 * B + B @ B, (B,)),
}
METHODS = {
    "add": (lambda x, y: x.add(2, y), X + 2 * Y, (X, Y)),
    "add_": (lambda x, y: x.add_(2, y), X + 2 * Y, (X, Y)),
    "sub_": (lambda x, y: x.sub_(2, y), X - 2 * Y, (X, Y)),
    "addcmul_": (lambda x, y: x.addcmul_(2, y, y), X + 2 * Y * Y, (X, Y)),
    "addcdiv_": (lambda x, y: x.addcdiv_(2, y, y), X + 2, (X, Y)),
    "addmm": (lambda m: m.addmm(2, 3, m, m), 2 * M + 3 * (M @ M), (M,)),
    "addmm without alpha": (lambda m: m.addmm(2, m, m), 2 * M + M @ M, (M,)),
    "addmm_": (lambda m: m.addmm_(2, 3, m.clone(), m.clone()), 2 * M + 3 * (M @ M), (M,)),
    "addmv_": (lambda x, m: x.addmv_(2, 3, m, x.clone()), 2 * X + 3 * (M @ X), (X, M)),
    "addbmm_": (lambda m, b: m.addbmm_(2, 3, b, b), 2 * M + 3 * (B @ B)[0], (M, B)),
    "baddbmm_": (lambda b: b.baddbmm_(2, 3, b.clone(), b.clone()), 2 * B + 3 * (B @ B), (B,)),
}


@pytest.fixture(autouse=True)
def nothing_told():
    deprecated_call._told.clear()


def test_the_warning_is_given_once():
    x, y = of(X, Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            tt.add(x, 2, y)
            x.clone().add_(2, y)
    assert [str(each.message).split()[3] for each in caught] == ["add", "add_"]


@pytest.mark.parametrize("signatures", [FUNCTIONS, METHODS], ids=["functions", "methods"])
def test_the_old_order_gives_the_same_and_warns(signatures):
    for name, (call, expected, arrays) in signatures.items():
        with pytest.warns(UserWarning, match=rf"overload of {name.split()[0]} is deprecated"):
            result = call(*of(*arrays))
        np.testing.assert_allclose(result.numpy(), expected, err_msg=name)


def test_the_warning_names_both_forms_and_the_callers_line():
    x, y = of(X, Y)
    with pytest.warns(UserWarning) as caught:
        tt.add(x, 2, y, out=tt.empty(2))
    assert str(caught[0].message) == (
        "This overload of add is deprecated:\n"
        "\tadd(Tensor input, Number alpha, Tensor other, *, Tensor out = None)\n"
        "Consider using one of the following signatures instead:\n"
        "\tadd(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)"
    )
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"\taddmm\(Number beta, Number alpha, Tensor mat1, Tensor mat2\)\n"):
        tt.ones(2, 2).addmm(1, 2, tt.ones(2, 2), tt.ones(2, 2))


def test_out_in_place_and_gradients_are_those_of_the_call_that_is_meant():
    x, y = of(X, Y)
    out = tt.empty(2)
    with pytest.warns(UserWarning):
        assert tt.add(x, 2, y, out=out) is out
    np.testing.assert_array_equal(out.numpy(), X + 2 * Y)
    with pytest.warns(UserWarning):
        assert x.add_(2, y) is x
    w = tt.ones(2, requires_grad=True)
    tt.add(y, 3, w).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [3, 3])


def test_new_order_does_not_warn():
    x, y = of(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tt.add(x, y, alpha=2)
        tt.add(x, alpha=2, other=y)
        x.add_(y, alpha=2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tt.add(x, x, x),
        lambda x: tt.add(x, 2, x, alpha=3),
        lambda x: tt.add(x, 1, 2, 3),
        lambda x: x.add(1, 2, 3),
        lambda x: tt.mul(x, x, x),
        lambda x: tt.addmm(2, x, 3, x),
        lambda x: tt.add(x, 2, "3"),
    ],
)
def test_other_calls_with_too_many_arguments_are_refused(call):
    with (
        warnings.catch_warnings(),
        pytest.raises(TypeError, match=r"takes \d positional|invalid combination"),
    ):
        warnings.simplefilter("error")
        call(tt.ones(2, 2))


@pytest.mark.filterwarnings("ignore:This overload")
def test_a_number_stands_for_the_last_tensor() -> None:
    assert tt.sub(tt.ones(1), 2, 1.5).tolist() == [-2]
    assert tt.ones(1).add(tt.tensor(2.0), 3).tolist() == [7]
    assert tt.add(2, 3, 4).item() == 14
    with pytest.raises(TypeError):
        tt.exp(tt.ones(1), 2)


def test_a_second_call_of_the_same_types_means_the_same() -> None:
    a, b = tt.ones(3), tt.full((3,), 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scale in (2, 3, -1):
            assert tt.equal(a.add(scale, b), tt.full((3,), 1.0 + 2 * scale))
            assert tt.equal(a.clone().addcmul_(scale, b, b), tt.full((3,), 1.0 + 4 * scale))
            assert tt.equal(tt.addcdiv(a, scale, b, b), tt.full((3,), 1.0 + scale))
        with pytest.raises(RuntimeError, match="size"):
            a.add(2, tt.ones(4))
