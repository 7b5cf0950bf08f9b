"""The diffusion model learns noise, and sampling by the true noise gives the image."""

import re
from collections.abc import Callable
from types import ModuleType

import pytest

import triten as tt


def test_the_loss_falls_and_samples_are_drawn(
    load_example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("diffusion_digits").main(
        ["--device", "cpu", "--epochs", "3", "--images", "192", "--samples", "1"]
    )
    printed = capsys.readouterr().out
    losses = [float(value) for value in re.findall(r"squared error (\S+)", printed)]
    assert len(losses) == 3 and losses[-1] < losses[0] < 1.5
    assert len(printed.splitlines()) == 3 + 8 + 1 and "digits as asked for" in printed


def test_sampling_by_the_true_noise_gives_the_image(
    load_example: Callable[[str], ModuleType], device: str
) -> None:
    example = load_example("diffusion_digits")
    tt.manual_seed(0)
    image = tt.rand(2, 1, 8, 8, device=device) * 2 - 1

    def true_noise(x: tt.Tensor, level: tt.Tensor, label: tt.Tensor) -> tt.Tensor:
        signal, sigma = example.signal_and_noise(level)
        return (x - signal * image) / sigma

    tt.testing.assert_close(
        example.sample(true_noise, tt.zeros(2, device=device), 3), image, atol=1e-4, rtol=0
    )
