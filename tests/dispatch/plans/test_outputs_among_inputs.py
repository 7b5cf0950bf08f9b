"""An `out=` tensor that is also an input, and gets another shape, is read first and written once."""

import warnings

import pytest

import triten as tt

REDUCTIONS = {
    "sum": lambda x: tt.sum(x, 1, out=x),
    "amax": lambda x: tt.amax(x, 1, out=x),
    "prod": lambda x: tt.prod(x, 1, out=x),
    "mean": lambda x: tt.mean(x, 1, out=x),
    "std": lambda x: tt.std(x, 1, out=x),
    "logsumexp": lambda x: tt.logsumexp(x, 1, out=x),
    "norm": lambda x: tt.linalg.vector_norm(x, 2, dim=1, out=x),
    "nansum": lambda x: tt.nansum(x, 1, out=x),
}
EXPECTED = {
    "sum": [6.0, 15.0],
    "amax": [3.0, 6.0],
    "prod": [6.0, 120.0],
    "mean": [2.0, 5.0],
    "std": [1.0, 1.0],
    "logsumexp": [3.4076059, 6.4076059],
    "norm": [3.7416574, 8.7749644],
    "nansum": [6.0, 15.0],
}


@pytest.fixture(autouse=True)
def resizing_is_meant():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="An output with one or more elements was resized")
        yield


def matrix(device):
    return tt.arange(1.0, 7.0, device=device).reshape(2, 3)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_of_its_own_output(name, device):
    x = matrix(device).clone()
    assert REDUCTIONS[name](x) is x
    assert x.tolist() == pytest.approx(EXPECTED[name]) and x._version == 1


def test_products_into_a_factor(device):
    for into in (0, 1):
        a, b = matrix(device).clone(), tt.arange(1.0, 13.0, device=device).reshape(3, 4).clone()
        out = (a, b)[into]
        tt.mm(a, b, out=out)
        assert out.tolist() == [[38.0, 44.0, 50.0, 56.0], [83.0, 98.0, 113.0, 128.0]] and out._version == 1
        assert (a, b)[1 - into]._version == 0
    square = tt.arange(1.0, 5.0, device=device).reshape(2, 2).clone()
    tt.mm(square, square, out=square)
    assert square.tolist() == [[7.0, 10.0], [15.0, 22.0]] and square._version == 1


def test_an_operand_of_a_broadcast_is_not_resized(device):
    a, b = matrix(device), tt.ones(3, device=device)
    for function in (tt.add, tt.mul, tt.maximum):
        with pytest.raises(
            RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"
        ):
            function(a, b, out=b)
    assert b.tolist() == [1.0, 1.0, 1.0] and b._version == 0


def test_what_may_be_no_output_is_refused_as_ever(device):
    x = matrix(device).clone()
    with pytest.raises(RuntimeError):
        tt.index_select(x, 0, tt.tensor([0], device=device), out=x)
    assert x.shape == (2, 3) and x._version == 0


def test_a_resized_output_is_one_version_further(device):
    out = tt.empty(0, device=device)
    tt.add(matrix(device), 1, out=out)
    assert out._version == 1
    tt.linalg.vector_norm(matrix(device), 2, dim=1, out=out)
    assert out._version == 2
