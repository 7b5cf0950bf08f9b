"""Operators of gradients that are called with shapes and modes that do not fit: they raise RuntimeError."""

from collections.abc import Callable

import pytest

import triten as tt

aten = tt.ops.aten
CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "grid_sampler_2d_backward": (
        lambda: aten.grid_sampler_2d_backward(
            tt.ones(1, 1, 2, 2), tt.ones(1, 1, 2, 2), tt.ones(1, 2, 2, 2), -1, 0, False, [True, True]
        ),
        "interpolation_mode must be .* got -1",
    ),
    "grid_sampler_2d_backward of the grid alone": (
        lambda: aten.grid_sampler_2d_backward(
            tt.ones(1, 1, 2, 2), tt.ones(1, 1, 2, 2), tt.ones(1, 2, 2, 2), 3, 0, False, [False, True]
        ),
        "interpolation_mode must be .* got 3",
    ),
    "grid_sampler_2d_backward of another shape": (
        lambda: aten.grid_sampler_2d_backward(
            tt.ones(1, 1, 2, 3), tt.ones(1, 1, 2, 2), tt.ones(1, 2, 2, 2), 0, 0, False, [True, True]
        ),
        "grad_output",
    ),
    "native_dropout_backward": (
        lambda: aten.native_dropout_backward(tt.ones(3), tt.ones(2) > 0, 2.0),
        "mask of shape .2. does not expand",
    ),
    "embedding_dense_backward": (
        lambda: aten.embedding_dense_backward(tt.ones(2, 3), tt.tensor([0, 1, 1]), 4, -1, False),
        "is invalid for input of size 6",
    ),
    "_pack_padded_sequence_backward": (
        lambda: aten._pack_padded_sequence_backward(tt.ones(3), [0], tt.tensor([1, 1]), True),
        "expected 2 or more sizes",
    ),
    "affine_grid_generator_backward": (
        lambda: aten.affine_grid_generator_backward(tt.ones(2, 3, 4), [], False),
        "expected 4 or 5 sizes",
    ),
    "_fake_quantize_learnable_per_channel_affine_backward": (
        lambda: aten._fake_quantize_learnable_per_channel_affine_backward(
            tt.ones(5, 1), tt.ones(()), tt.ones(1), tt.ones(1), 1, 7, 0, 1.0
        ),
        "expected grad and self of one shape",
    ),
    "fractional_max_pool2d": (
        lambda: tt.nn.functional.fractional_max_pool2d(
            tt.ones(1, 1, 4, 4), (-(2**63), 3), output_size=(1, 1)
        ),
        "kernel_size must be positive",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_does_not_fit_is_refused(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(RuntimeError, match=message):
        call()
