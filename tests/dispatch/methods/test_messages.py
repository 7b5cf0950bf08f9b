"""Messages of wrong calls name the argument, as PyTorch's do, where one signature takes as many arguments."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

X = tt.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tt.softmax(X), "softmax() missing 1 required positional argument: 'dim'"),
        (lambda: tt.gather(X, 0), "gather() missing 1 required positional argument: 'index'"),
        (lambda: tt.randint(0, 5), "randint(): argument 'size' (position 2) must be tuple of ints, not int"),
        (lambda: tt.randn("a"), "randn(): argument 'size' (position 1) must be tuple of ints, not str"),
        (lambda: tt.zeros(2, dtype="float32"), "zeros(): argument 'dtype' must be triten.dtype, not str"),
        # Positions of a method do not count its tensor.
        (lambda: X.softmax("a"), "softmax(): argument 'dim' (position 1) must be int, not str"),
        (lambda: X.add("a"), "add(): argument 'other' (position 1) must be Tensor, not str"),
        (lambda: X.unflatten("a", (1, 2)), "unflatten(): argument 'dim' (position 1) must be int, not str"),
        (lambda: tt.softmax(X, "a"), "softmax(): argument 'dim' (position 2) must be int, not str"),
        (lambda: X.transpose(0), "Tensor.transpose() missing 1 required positional argument: 'dim1'"),
    ],
)
def test_the_argument_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(("call", "count"), [(lambda: tt.randint(5), 4), (lambda: tt.mean(X, 0.5), 2)])
def test_signatures_are_listed_once_and_without_filled_in_defaults(
    call: Callable[[], Any], count: int
) -> None:
    with pytest.raises(TypeError, match="invalid combination") as caught:
        call()
    text = str(caught.value)
    assert text.count(" * (") == count
    assert "NoneType" not in text and "names" not in text


def test_methods_are_listed_without_their_tensor() -> None:
    with pytest.raises(TypeError, match=r"sum\(\) .* got \(str\), but expected one of") as caught:
        X.sum("a")
    text = str(caught.value)
    assert "Tensor input" not in text and "out" not in text


def test_a_misspelled_method_is_suggested() -> None:
    program = "import triten as tt\ntt.ones(2).sofmax(0)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert "Did you mean: 'softmax'?" in done.stderr


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(
        RuntimeError, match=r"^Expected one of cpu, cuda, meta.*: gpu: write 'cuda' for a GPU$"
    ):
        tt.ones(2, device="gpu")
