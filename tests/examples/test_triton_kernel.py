"""The example's Triton kernel is right, with its derivative, on interpreted CUDA tensors and compiled."""

from collections.abc import Callable
from types import ModuleType

import pytest

import triten as tt


def test_outputs_gradients_and_opcheck(
    load_example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    example = load_example("triton_kernel")
    example.check("cuda")
    assert "right" in capsys.readouterr().out
    x, residual, weight = example.arguments_of(4, 100, "cuda", tt.bfloat16)
    for found, wanted in zip(
        example.add_rms_norm(x, residual, weight), example.reference(x, residual, weight), strict=True
    ):
        tt.testing.assert_close(found, wanted)


def test_the_table(load_example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    load_example("triton_kernel").main(["--rows", "2", "--columns", "32", "--seconds", "0.001"])
    assert len(capsys.readouterr().out.splitlines()) == 3
