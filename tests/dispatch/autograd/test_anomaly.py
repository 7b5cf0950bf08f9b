"""Anomaly detection names the forward call whose backward fails or returns NaN."""

import warnings

import pytest

import triten as tt


def root_of_nothing(x):
    return (x.sqrt() * 0).sum()


class Failing(tt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise KeyError("of its own")


def test_nan_is_found_and_told_where_it_comes_from():
    x = tt.zeros(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        watched = tt.autograd.detect_anomaly()
    with (
        watched,
        pytest.warns(UserWarning, match=r"(?s)Error detected in SqrtBackward0. Traceback.*root_of_nothing"),
        pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"),
    ):
        root_of_nothing(x).backward()
    assert not tt.is_anomaly_enabled()
    root_of_nothing(x).backward()
    assert x.grad.isnan().all()


def test_nan_may_be_let_through():
    x = tt.zeros(1, requires_grad=True)
    with tt.autograd.set_detect_anomaly(True, check_nan=False):
        assert tt.is_anomaly_enabled() and not tt.is_anomaly_check_nan_enabled()
        root_of_nothing(x).backward()
    assert x.grad.isnan().all() and tt.is_anomaly_check_nan_enabled()


def test_an_error_is_told_with_the_call():
    x = tt.ones(1, requires_grad=True)
    before = Failing.apply(x)
    with tt.autograd.set_detect_anomaly(True):
        with (
            pytest.warns(UserWarning, match="FailingBackward. No forward pass information"),
            pytest.raises(KeyError),
        ):
            before.backward()
        with (
            pytest.warns(UserWarning, match=r"(?s)FailingBackward. Traceback.*Failing.apply"),
            pytest.raises(KeyError),
        ):
            Failing.apply(x).backward()


def test_gradients_are_the_same_and_nothing_stays():
    x = tt.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tt.autograd.set_detect_anomaly(True):
            (x.sin() * x).sum().backward()
        assert "__init__" not in vars(tt.autograd.graph.Node)
        again = tt.ones(3, requires_grad=True)
        (again.sin() * again).sum().backward()
    assert tt.equal(x.grad, again.grad)
