"""Precision of float32 matmuls: the flags, old and new, and the notification of changes."""

import pytest

import triten as tt
from triten.runtime import float32_precision

MATMUL, CUDNN = tt.backends.cuda.matmul, tt.backends.cudnn


@pytest.fixture(autouse=True)
def defaults():
    yield
    tt.set_float32_matmul_precision("highest")
    CUDNN.allow_tf32 = True


def test_products_are_exact_and_convolutions_are_not():
    assert tt.get_float32_matmul_precision() == "highest"
    assert MATMUL.allow_tf32 is False
    assert CUDNN.allow_tf32 is True and CUDNN.conv.fp32_precision == "tf32"
    assert not float32_precision.matmul_allows_tf32()
    assert float32_precision.convolution_allows_tf32()


@pytest.mark.parametrize("precision, allowed", [("highest", False), ("high", True), ("medium", True)])
def test_the_precision_of_products_is_the_flag_too(precision, allowed):
    tt.set_float32_matmul_precision(precision)
    assert tt.get_float32_matmul_precision() == precision
    assert MATMUL.allow_tf32 is float32_precision.matmul_allows_tf32() is allowed
    assert MATMUL.fp32_precision == ("tf32" if allowed else "ieee")


@pytest.mark.parametrize("allow, precision", [(True, "high"), (False, "highest")])
def test_the_flag_of_products_is_the_precision_too(allow, precision):
    MATMUL.allow_tf32 = allow
    assert tt.get_float32_matmul_precision() == precision


def test_the_flag_of_convolutions_is_their_own():
    CUDNN.allow_tf32 = False
    assert CUDNN.conv.fp32_precision == "none"
    assert not float32_precision.convolution_allows_tf32()
    CUDNN.conv.fp32_precision = "tf32"
    assert float32_precision.convolution_allows_tf32()
    assert not float32_precision.matmul_allows_tf32()


def test_the_older_flags_refuse_to_answer_where_the_newer_one_says_otherwise():
    MATMUL.fp32_precision = "tf32"
    assert float32_precision.matmul_allows_tf32()
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs to set the matmul precision"):
        tt.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs to set the TF32 status"):
        MATMUL.allow_tf32  # noqa: B018
    CUDNN.conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
        CUDNN.allow_tf32  # noqa: B018


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            lambda: tt.set_float32_matmul_precision("low"),
            RuntimeError,
            "low is not one of 'highest', 'high', or",
        ),
        (lambda: tt.set_float32_matmul_precision(1), RuntimeError, "expects a str, but got int"),
        (lambda: setattr(MATMUL, "allow_tf32", 1), RuntimeError, "expects a bool, but got int"),
        (lambda: setattr(CUDNN, "allow_tf32", None), RuntimeError, "expects a bool, but got NoneType"),
        (lambda: setattr(MATMUL, "fp32_precision", "x"), RuntimeError, "Unknown precision: x"),
        (
            lambda: setattr(MATMUL, "fp32_precision", "bf16"),
            RuntimeError,
            "does not support precision 'bf16'",
        ),
        (lambda: setattr(MATMUL, "fp32_precision", 3), TypeError, "expects a str, but got int"),
        (lambda: setattr(MATMUL, "allow", True), AttributeError, "allow"),
    ],
)
def test_anything_else_is_refused_and_changes_nothing(change, error, message):
    with pytest.raises(error, match=message):
        change()
    assert tt.get_float32_matmul_precision() == "highest" and not MATMUL.allow_tf32
    assert CUDNN.allow_tf32 and MATMUL.fp32_precision == "ieee"


def test_listeners_hear_of_what_products_would_notice(monkeypatch):
    heard = []
    monkeypatch.setattr(float32_precision, "on_change", [lambda: heard.append(1)])
    tt.set_float32_matmul_precision("high")
    tt.set_float32_matmul_precision("medium")
    assert len(heard) == 1
    MATMUL.fp32_precision = "ieee"
    MATMUL.fp32_precision = "none"
    assert len(heard) == 2
    CUDNN.allow_tf32 = False
    assert len(heard) == 3
