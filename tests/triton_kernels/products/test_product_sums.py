"""Products with an addend, and with vectors, on cuda against the CPU's over dtypes, strides and scales."""

import math

import pytest

import triten as tt

TOLERANCE = {
    tt.float16: 1e-2,
    tt.bfloat16: 8e-2,
    tt.float32: 1e-5,
    tt.float64: 1e-12,
    tt.int8: 0,
    tt.int64: 0,
}

# Operands' sizes, the addend's first
SHAPES = {
    "addmm": [
        ((5, 3), (5, 7), (7, 3)),
        ((3,), (5, 7), (7, 3)),
        ((5, 1), (5, 7), (7, 3)),
        ((), (4, 0), (0, 3)),
    ],
    "addmv": [((5,), (5, 7), (7,)), ((), (5, 7), (7,)), ((3,), (3, 20000), (20000,)), ((3,), (3, 0), (0,))],
    "baddbmm": [
        ((2, 5, 3), (2, 5, 7), (2, 7, 3)),
        ((5, 1), (2, 5, 7), (2, 7, 3)),
        ((0, 5, 3), (0, 5, 7), (0, 7, 3)),
    ],
    "addbmm": [((5, 3), (2, 5, 7), (2, 7, 3)), ((3,), (4, 5, 7), (4, 7, 3)), ((5, 3), (0, 5, 7), (0, 7, 3))],
}
CASES = [(name, sizes) for name, every in SHAPES.items() for sizes in every]
SCALES = [{}, {"beta": 2}, {"alpha": 3, "beta": 0}, {"alpha": -2}, {"alpha": 2, "beta": -3}]


def transposed(tensor):
    """Return the same values with the last two dimensions exchanged in memory."""
    if tensor.ndim < 2:
        return tensor
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("name, sizes", CASES, ids=str)
def test_scales_and_shapes(random, same, name, sizes, scales):
    host = [random(s, tt.float64) for s in sizes]
    device = [t.to("cuda") for t in host]
    operator = getattr(tt, name)
    expected = operator(*host, **scales)
    same(operator(*device, **scales), expected, 1e-10)
    same(operator(device[0], *map(transposed, device[1:]), **scales), expected, 1e-10)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("name", SHAPES)
def test_dtypes(random, same, name, dtype):
    host = [random(s, dtype) for s in SHAPES[name][0]]
    device = [t.to("cuda") for t in host]
    operator = getattr(tt, name)
    scales = {"alpha": 3, "beta": 2}
    same(operator(*device, **scales), operator(*host, **scales), TOLERANCE[dtype] * 8)


@pytest.mark.parametrize("name", SHAPES)
def test_a_beta_of_zero_ignores_nan(random, same, name):
    host = [random(s) for s in SHAPES[name][0]]
    host[0].fill_(math.nan)
    device = [t.to("cuda") for t in host]
    operator = getattr(tt, name)
    same(operator(*device, beta=0), operator(*host, beta=0), 1e-5)
    assert operator(*device, beta=0.5).isnan().all().item()


@pytest.mark.parametrize("name", SHAPES)
def test_in_place_and_out(random, same, launches, name):
    host = [random(s, tt.float64) for s in SHAPES[name][0]]
    device = [t.to("cuda") for t in host]
    expected = getattr(tt, name)(*host, beta=2, alpha=3)
    out = tt.empty(*reversed(expected.shape), dtype=tt.float64, device="cuda").permute(
        tuple(range(expected.ndim))[::-1]
    )
    assert getattr(tt, name)(*device, beta=2, alpha=3, out=out) is out
    same(out, expected, 1e-10)
    before = launches.count
    assert getattr(device[0], f"{name}_")(*device[1:], beta=2, alpha=3) is device[0]
    assert launches.count - before == (2 if name == "addbmm" else 1)
    same(device[0], expected, 1e-10)


@pytest.mark.parametrize("name", SHAPES)
def test_gradients(random, same, name):
    results = []
    host = [random(s, tt.float64) for s in SHAPES[name][1]]
    for where in ("cpu", "cuda"):
        tensors = [t.to(where).detach().requires_grad_() for t in host]
        getattr(tt, name)(*tensors, beta=0.5, alpha=2).sum().backward()
        results.append([t.grad for t in tensors])
    for expected, got in zip(*results, strict=True):
        same(got, expected, 1e-10)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("sizes", [(0,), (1,), (1000,), (70000,)], ids=str)
def test_dot(random, same, launches, sizes, dtype):
    a, b = random(sizes, dtype), random(sizes, dtype)
    expected = (a.to(tt.float64) * b.to(tt.float64)).sum()
    x, y = a.to("cuda"), b.to("cuda")
    before = launches.count
    results = [x.dot(y), x.vdot(y)]
    assert launches.count - before == (4 if sizes[0] > 16384 else 2), "long vectors are cut into parts"
    if not dtype.is_floating_point:
        expected = expected.to(tt.int64)
    tolerance = TOLERANCE[dtype] * max(1.0, math.sqrt(sizes[0]))
    for result in results:
        same(result, expected.to(dtype), tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("sizes", [(1, 1), (70, 33), (3, 40000), (0, 3), (4, 0)], ids=str)
def test_mv(random, same, sizes, dtype):
    a, x = random(sizes, dtype), random((sizes[1] * 2,), dtype)
    expected = (a.to(tt.float64) * x[::2].to(tt.float64)).sum(1)
    if not dtype.is_floating_point:
        expected = expected.to(tt.int64)
    tolerance = TOLERANCE[dtype] * max(1.0, math.sqrt(sizes[1]))
    on_device = x.to("cuda")[::2]
    same(a.to("cuda").mv(on_device), expected.to(dtype), tolerance)
    same(transposed(a.to("cuda")).mv(on_device), expected.to(dtype), tolerance)


def test_refusals(random):
    x = random((3, 3), tt.bool).to("cuda")
    for operator in (lambda: tt.addmm(x, x, x), lambda: x.mv(x[0]), lambda: x[0].dot(x[0])):
        with pytest.raises(NotImplementedError, match="Bool"):
            operator()
