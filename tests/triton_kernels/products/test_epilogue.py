"""`_addmm_activation` computes relu or gelu of addmm in the same launch, on every backend."""

import numpy as np
import pytest
from scipy.special import erf

import triten as tt

TOLERANCE = {tt.float16: 2e-3, tt.bfloat16: 1.6e-2, tt.float32: 1e-5, tt.float64: 1e-12}


def relu(x):
    return np.where(x < 0, 0, x)


def gelu(x):
    return x * 0.5 * (1 + erf(x * np.sqrt(0.5)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("use_gelu", [False, True], ids=["relu", "gelu"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (24, 32, 16), (33, 7, 5), (3, 0, 4), (0, 2, 3), (8, 1100, 40)], ids=str
)
def test_the_activation_of_a_product_sum(random, sizes, dtype, use_gelu, device, kernels):
    m, k, n = sizes
    c, a, b = random((n,), dtype), random((m, k), dtype), random((k, n), dtype)
    got = tt._addmm_activation(*(x.to(device) for x in (c, a, b)), beta=2, alpha=0.25, use_gelu=use_gelu)
    z, x, y = (t.to(tt.float64).numpy() for t in (c, a, b))
    total = 2 * z + 0.25 * (x @ y)
    expected = (gelu if use_gelu else relu)(total)
    assert got.dtype is dtype and got.device.type == device and got.shape == (m, n)
    error = np.abs(got.cpu().to(tt.float64).numpy() - expected)
    assert (error <= TOLERANCE[dtype] * (1 + np.abs(expected))).all()
    launched = [name for name in kernels if name.startswith(("matmul", "add_parts"))]
    assert len(launched) == (
        0 if device == "cpu" or not m * n else 2 if k == 1100 and dtype.itemsize < 8 else 1
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_integers_have_relu_and_no_gelu(device):
    c, a = tt.tensor([[-9, 1], [2, 3]], device=device), tt.tensor([[1, -2], [3, 4]], device=device)
    assert tt._addmm_activation(c, a, a).tolist() == [[0, 0], [17, 13]]
    with pytest.raises(NotImplementedError, match="\"GeluKernelImpl\" not implemented for 'Long'"):
        tt._addmm_activation(c, a, a, use_gelu=True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_relu_keeps_nan_and_infinity(device):
    a = tt.tensor([[float("nan"), 0.0], [float("inf"), 0.0], [-float("inf"), 0.0]], device=device)
    got = tt._addmm_activation(tt.zeros(2, device=device), a, tt.ones(2, 2, device=device))
    assert str(got[:, 0].tolist()) == "[nan, inf, 0.0]"


@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
def test_out_and_refusals(device):
    c, a, b = tt.ones(5, device=device), tt.ones(2, 3, device=device), tt.ones(3, 5, device=device)
    out = tt.empty(5, 2, device=device).t()
    assert tt._addmm_activation(c, a, b, out=out) is out
    if device != "meta":
        assert out.tolist() == [[4.0] * 5] * 2
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 5x3\)"):
        tt._addmm_activation(c, a, b.t())
    with pytest.raises(NotImplementedError, match="clamp is not supported for complex types"):
        tt._addmm_activation(*(tt.empty(2, 2, dtype=tt.complex64, device=device) for _ in range(3)))


def test_it_has_no_derivative_as_in_pytorch():
    a = tt.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_addmm_activation is not implemented"):
        tt._addmm_activation(a, a, a).sum().backward()


def test_a_linear_layer_is_one_launch(random, kernels):
    x, w, b = random((24, 32), tt.float16), random((16, 32), tt.float16), random((16,), tt.float16)
    got = tt.nn.functional.linear(x.to("cuda"), w.to("cuda"), b.to("cuda"))
    expected = x.to(tt.float64).numpy() @ w.to(tt.float64).numpy().T + b.to(tt.float64).numpy()
    np.testing.assert_allclose(got.cpu().to(tt.float64).numpy(), expected, rtol=2e-3, atol=2e-3)
    assert kernels == ["matmul_persistent"]
