"""Matrix products and convolutions with their gradients, against float64 on the host."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.stub import StructuredCall, find_kernel
from triten.runtime.tensor_spec import TensorSpec

TOLERANCE = {tt.float16: 2e-2, tt.bfloat16: 1e-1, tt.float32: 1e-4, tt.float64: 1e-12}
SIZES = [(1, 1, 1), (5, 7, 3), (64, 33, 70), (130, 200, 17), (3, 0, 4), (0, 2, 3), (600, 20, 5)]


def wide(tensor):
    array = tensor.detach().cpu().numpy()
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_mm(random, same, launches, size, dtype, transposed):
    m, k, n = size
    a = random((k, m) if transposed[0] else (m, k), dtype)
    b = random((n, k) if transposed[1] else (k, n), dtype)
    x, y = a.to("cuda"), b.to("cuda")
    x, a = (x.t(), a.t()) if transposed[0] else (x, a)
    y, b = (y.t(), b.t()) if transposed[1] else (y, b)
    before = launches.count
    z = x.mm(y)
    assert launches.count - before == (1 if m * n else 0), "a transpose costs no copy"
    same(z, tt.from_numpy((wide(a) @ wide(b)).astype(dtype.np)), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64], ids=lambda d: d.name)
@pytest.mark.parametrize("size", SIZES[:4], ids=str)
def test_integer_mm_wraps(random, same, size, dtype):
    m, k, n = size
    a, b = random((m, k), dtype), random((k, n), dtype)
    same(a.to("cuda").mm(b.to("cuda")), tt.from_numpy((wide(a) @ wide(b)).astype(dtype.np)))


def test_mm_of_cut_out_and_unaligned_operands(random, same):
    a, b = random((20, 31), tt.float64), random((40, 30), tt.float64)
    x = a.to("cuda")[1:, 1:]
    same(x.mm(b.to("cuda").t()[:, 1::3]), tt.from_numpy(a.numpy()[1:, 1:] @ b.numpy().T[:, 1::3]), 1e-12)


def test_mm_out_of_any_strides(random, same):
    a, b = random((6, 7), tt.float64), random((7, 8), tt.float64)
    out = tt.empty(8, 6, dtype=tt.float64, device="cuda").t()
    assert tt.mm(a.to("cuda"), b.to("cuda"), out=out) is out
    same(out, tt.from_numpy(a.numpy() @ b.numpy()), 1e-12)


def test_mm_of_bool_is_refused(random):
    x = random((3, 3), tt.bool).to("cuda")
    with pytest.raises(NotImplementedError, match=r"mm_cuda.*Bool"):
        x.mm(x)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "expanded"])
def test_bmm(random, shared):
    a, b = random((5, 6, 7), tt.float64), random((1 if shared else 5, 7, 9), tt.float64)
    x, y = a.to("cuda"), b.to("cuda").expand((5, 7, 9))
    spec = TensorSpec.contiguous((5, 6, 9), tt.float64, x.device)
    call = StructuredCall(
        "bmm", {"self": x._spec, "mat2": y._spec}, ("self", "mat2"), (spec,), None, x.device, {}
    )
    out = tt.empty(5, 6, 9, dtype=tt.float64, device="cuda")
    find_kernel("bmm_stub", "cuda", "bmm")(call).into(out._data, x._data, y._data)
    np.testing.assert_allclose(out.cpu().numpy(), a.numpy() @ b.numpy(), rtol=1e-12)


def test_gradients_of_mm(random, same):
    a, b = random((5, 7), tt.float64), random((7, 3), tt.float64)
    x, y = a.to("cuda").requires_grad_(), b.to("cuda").requires_grad_()
    x.mm(y).sum().backward()
    ones = np.ones((5, 3))
    same(x.grad, tt.from_numpy(ones @ b.numpy().T), 1e-12)
    same(y.grad, tt.from_numpy(a.numpy().T @ ones), 1e-12)


# (input, weight, stride, padding, dilation, groups)
CONVOLUTIONS = {
    "plain": ((2, 3, 8, 9), (4, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "everything": ((1, 4, 10, 11), (6, 2, 3, 2), (2, 1), (1, 2), (1, 2), 2),
    "depthwise": ((2, 4, 7, 7), (4, 1, 3, 3), (2, 3), (2, 1), (2, 1), 4),
    "one tap": ((2, 20, 5, 5), (18, 20, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "one image": ((1, 1, 12, 12), (8, 1, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    "many pixels": ((2, 2, 40, 40), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "lines": ((3, 4, 20), (6, 2, 3), (2,), (1,), (2,), 2),
    "no images": ((0, 3, 8, 9), (4, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
}


def last(tensor):
    if tensor.ndim != 4:
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    return tensor.permute((0, 2, 3, 1)).contiguous().permute((0, 3, 1, 2))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("layout", [lambda t: t, last], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolution_and_its_gradients(random, same, launches, case, layout, bias):
    shape, filters, *geometry = case
    host = [random(shape, tt.float64), random(filters, tt.float64), random(filters[:1], tt.float64)]
    device = [layout(host[0].to("cuda")), host[1].to("cuda"), host[2].to("cuda")]
    for tensor in (*host, *device):
        tensor.requires_grad_()
    before = launches.count
    results = []
    for x, w, b in (host, device):
        convolve = tt.conv2d if x.ndim == 4 else tt.conv1d
        y = convolve(x, w, b if bias else None, *geometry)
        results.append(y)
    assert launches.count - before == (1 if results[0].numel() else 0)
    same(results[1], results[0].detach(), 1e-11)
    seed = random(tuple(results[0].shape), tt.float64)
    results[0].backward(seed)
    results[1].backward(seed.to("cuda"))
    for got, expected in zip(device[: 3 if bias else 2], host, strict=False):
        same(got.grad, expected.grad, 1e-11)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=lambda d: d.name)
def test_convolution_of_every_dtype(random, same, dtype):
    x, w = random((2, 5, 9, 9), dtype), random((7, 5, 3, 3), dtype)
    expected = tt.conv2d(tt.from_numpy(wide(x)), tt.from_numpy(wide(w)))
    got = tt.conv2d(x.to("cuda"), w.to("cuda"))
    same(got, tt.from_numpy(expected.numpy().astype(dtype.np)), TOLERANCE[dtype])


def test_convolution_of_volumes_is_refused(random):
    x = random((1, 1, 3, 3, 3)).to("cuda")
    with pytest.raises(NotImplementedError, match="3 spatial dimensions are not implemented"):
        tt.conv3d(x, x)


def test_convolution_of_integers_is_refused(random):
    x = random((1, 1, 3, 3), tt.int32).to("cuda")
    with pytest.raises(NotImplementedError, match=r"convolution_cuda.*Int"):
        tt.conv2d(x, x)


def test_gradients_through_pointwise_and_sum(random, same):
    a, b = random((4, 5)), random((4, 5))
    w, x = a.to("cuda").requires_grad_(), b.to("cuda")
    (w + x).relu().sum().backward()
    same(w.grad, tt.from_numpy((a.numpy() + b.numpy() > 0).astype(np.float32)))


def test_gradients_cross_devices(random):
    a = random((3,)).requires_grad_()
    (a.to("cuda") + 1).sum().to("cpu").backward()
    assert a.grad.tolist() == [1.0] * 3
