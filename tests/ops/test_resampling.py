"""Padding, interpolation, sampling, folding and transforms: the CPU against NumPy, Triton's kernels against the CPU."""

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
X = np.random.default_rng(5).standard_normal((2, 3, 5, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("mode", "numpys"),
    [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_padding_is_numpys(mode: str, numpys: str) -> None:
    expected = np.pad(X, ((0, 0), (0, 0), (2, 1), (1, 3)), numpys)
    assert np.array_equal(F.pad(tt.from_numpy(X), (1, 3, 2, 1), mode).numpy(), expected)


def test_negative_padding_leaves_elements_off() -> None:
    assert F.pad(tt.arange(5), (-1, 2), value=9).tolist() == [1, 2, 3, 4, 9, 9]


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_are_numpys(norm: str) -> None:
    x = tt.from_numpy(X.astype(np.float64))
    assert np.allclose(tt.fft.rfft(x, 7, 1, norm).numpy(), np.fft.rfft(X, 7, 1, norm))
    assert np.allclose(tt.fft.fftn(x, (3, 6), (0, 2), norm).numpy(), np.fft.fftn(X, (3, 6), (0, 2), norm))
    assert np.allclose(tt.fft.irfft(tt.fft.rfft(x, norm=norm), 4, norm=norm).numpy(), X)


def test_signals_are_padded_before_their_dtype_is_looked_at() -> None:
    with pytest.raises(NotImplementedError, match="reflection_pad1d"):
        tt.stft(tt.ones(9, dtype=tt.bool), 4, return_complex=True)
    with pytest.raises(RuntimeError, match="expected a tensor of floating point or complex values"):
        tt.stft(tt.ones(9, dtype=tt.int64), 4, return_complex=True)


def test_a_signal_survives_its_short_transforms() -> None:
    signal = tt.randn(2, 64, dtype=tt.float64)
    window = tt.hann_window(16, dtype=tt.float64)
    made = tt.istft(tt.stft(signal, 16, window=window, return_complex=True), 16, window=window, length=64)
    assert tt.allclose(made, signal)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_kernels_of_interpolation_agree_with_the_cpu(mode: str) -> None:
    grads = []
    for device in ("cpu", "cuda"):
        x = tt.from_numpy(X).to(device).requires_grad_()
        out = F.interpolate(x, (7, 3), mode=mode)
        out.backward(tt.arange(float(out.numel()), device=device).reshape(out.shape))
        grads.append((out.detach().cpu().numpy(), x.grad.cpu().numpy()))
    for cpu, cuda in zip(*grads, strict=True):
        assert np.allclose(cpu, cuda, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
def test_kernels_of_sampling_agree_with_the_cpu(border: str) -> None:
    places = np.random.default_rng(7).uniform(-1.4, 1.4, (2, 3, 2, 2)).astype(np.float32)
    made = []
    for device in ("cpu", "cuda"):
        x, grid = (tt.from_numpy(a).to(device).requires_grad_() for a in (X, places))
        out = F.grid_sample(x, grid, padding_mode=border, align_corners=False)
        out.sum().backward()
        made.append([t.detach().cpu().numpy() for t in (out, x.grad, grid.grad)])
    for cpu, cuda in zip(*made, strict=True):
        assert np.allclose(cpu, cuda, rtol=1e-4, atol=1e-4)


def test_folding_counts_the_windows_of_each_element() -> None:
    for device in ("cpu", "cuda"):
        columns = F.unfold(tt.ones(1, 1, 3, 3, device=device), 2)
        assert F.fold(columns, (3, 3), 2)[0, 0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_layers_pad_before_they_convolve(mode: str) -> None:
    layer = tt.nn.Conv2d(3, 4, 3, padding=1, padding_mode=mode)
    expected = F.conv2d(F.pad(tt.from_numpy(X), (1, 1, 1, 1), mode), layer.weight, layer.bias)
    assert tt.allclose(layer(tt.from_numpy(X)), expected)


@pytest.mark.parametrize("beta", [0.0, 12.0, 80.0])
def test_kaiser_windows_of_any_beta(beta: float) -> None:
    want = np.kaiser(9, beta)
    np.testing.assert_allclose(tt.kaiser_window(9, False, beta, dtype=tt.float64).numpy(), want, 1e-9)
    np.testing.assert_allclose(tt.signal.windows.kaiser(9, beta=beta, dtype=tt.float64).numpy(), want, 1e-9)
