"""Products in groups, on every backend, against float64."""

import dataclasses

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import driver

DEVICES = ["cpu", "cuda"]
ROUNDING = {tt.float32: 2.0**-24, tt.float16: 2.0**-11, tt.bfloat16: 2.0**-8}
OFFSETS = [[5, 24], [24, 24], [0, 0], [0, 17], [3, 3], [70, 90], [9, 4], [-3, 24]]
LAYOUTS = ["rows", "columns", "inner", "batches"]


def drawn(rng, dtype, *sizes, turned=False):
    """Return a tensor of normal numbers, column-major if `turned`, and its values."""
    host = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(dtype)
    if turned:
        host = host.transpose(-2, -1).contiguous().transpose(-2, -1)
    return host, host.to(tt.float64).numpy()


def places(offs, total):
    start, found = 0, []
    for end in offs:
        end = max(start, min(end, total))
        found.append(slice(start, end))
        start = end
    return found


def exact(x, y, offs, kind):
    """Compute the groups' matmuls in float64; elements outside all groups are zero."""
    if kind == "batches":
        return x @ y
    if kind == "inner":
        return np.stack([x[:, part] @ y[part] for part in places(offs, x.shape[1])])
    if kind == "rows":
        out = np.zeros((x.shape[0], y.shape[2]))
        for g, part in enumerate(places(offs, x.shape[0])):
            out[part] = x[part] @ y[g]
        return out
    return exact(y.T, x.swapaxes(1, 2), offs, "rows").T


def operands(rng, dtype, kind, groups=2, total=24, m=17, n=40, k=32, turned=(False, False)):
    sizes = {
        "rows": ((total, k), (groups, k, n)),
        "columns": ((groups, m, k), (k, total)),
        "inner": ((m if not turned[0] else 24, total), (total, n)),
        "batches": ((groups, m if not turned[0] else 24, k), (groups, k, n)),
    }[kind]
    if kind == "columns" and turned[0]:
        sizes = ((groups, 24, k), (k, total))
    return [drawn(rng, dtype, *size, turned=t) for size, t in zip(sizes, turned, strict=True)]


def check(got, expected, magnitude, dtype, k):
    assert got.dtype is dtype and got.shape == expected.shape
    error = np.abs(got.cpu().to(tt.float64).numpy() - expected)
    bound = ROUNDING[dtype] * np.abs(expected) + 2.0**-22 * (k + 4) * magnitude
    assert (error <= bound).all(), f"{error.max()} beyond {bound[error > bound][0]}"


def call(a, b, offs, kind, device):
    ends = None if kind == "batches" else tt.tensor(offs, dtype=tt.int32, device=device)
    return tt._grouped_mm(a.to(device), b.to(device), offs=ends)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("dtype", ROUNDING, ids=lambda d: d.name)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_layouts(rng, device, dtype, kind, turned):
    (a, x), (b, y) = operands(rng, dtype, kind, turned=turned)
    offs = [8, 24]
    check(
        call(a, b, offs, kind, device), exact(x, y, offs, kind), exact(abs(x), abs(y), offs, kind), dtype, 32
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LAYOUTS[:3])
@pytest.mark.parametrize("offs", OFFSETS, ids=str)
def test_groups_may_be_empty_and_end_anywhere(rng, device, kind, offs):
    (a, x), (b, y) = operands(rng, tt.bfloat16, kind)
    got = call(a, b, offs, kind, device)
    check(got, exact(x, y, offs, kind), exact(abs(x), abs(y), offs, kind), tt.bfloat16, 32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LAYOUTS[:3])
def test_many_groups(rng, device, kind):
    (a, x), (b, y) = operands(rng, tt.float32, kind, groups=9, total=200)
    offs = np.sort(rng.integers(0, 200, 9)).tolist()
    got = call(a, b, offs, kind, device)
    check(got, exact(x, y, offs, kind), exact(abs(x), abs(y), offs, kind), tt.float32, 200)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("kind", LAYOUTS[:3])
def test_what_is_not_finite_stays_in_its_group(rng, device, kind, value):
    (a, x), (b, y) = operands(rng, tt.float32, kind)
    offs = [7, 20]
    a[..., 3, 6], x[..., 3, 6] = value, value
    for part in (21, 22, 23):
        if kind == "rows":
            a[part], x[part] = value, value
        elif kind == "columns":
            b[:, part], y[:, part] = value, value
        else:
            a[:, part], b[part], x[:, part], y[part] = value, value, value, value
    expected = exact(x, y, offs, kind)
    got = call(a, b, offs, kind, device).cpu().numpy()
    finite = np.isfinite(expected)
    assert (np.isfinite(got) == finite).all() and not finite.all()
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-4, atol=1e-5)
    assert (np.isnan(got) == np.isnan(expected)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_lines_of_results_lie_whole_vectors_apart(rng, device, kind):
    (a, _), (b, _) = operands(
        rng, tt.bfloat16, kind, n=43, total=27 if kind == "columns" else 24, turned=(False, True)
    )
    got = call(a, b, [4, 24], kind, device)
    pitch = {"columns": 32}.get(kind, 48)
    assert got.stride()[-2:] == (pitch, 1)
    assert got.ndim == 2 or got.stride(0) == pitch * got.shape[1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_gradients(rng, device, kind, turned):
    (a, x), (b, y) = operands(rng, tt.float32, kind, m=24, turned=turned)
    offs = [8, 20]
    ends = None if kind == "batches" else tt.tensor(offs, dtype=tt.int32, device=device)
    a, b = a.to(device).requires_grad_(), b.to(device).requires_grad_()
    got = tt._grouped_mm(a, b, offs=ends)
    g = rng.standard_normal(got.shape).astype(np.float32)
    got.backward(tt.from_numpy(g).to(device))
    delta = 1e-6
    for tensor, values in ((a, x), (b, y)):
        tangent = rng.standard_normal(values.shape)
        pairs = [
            exact(
                *((values + s * delta * tangent, y) if tensor is a else (x, values + s * delta * tangent)),
                offs,
                kind,
            )
            for s in (1, -1)
        ]
        expected = ((pairs[0] - pairs[1]) * g).sum() / (2 * delta)
        own = (tensor.grad.cpu().to(tt.float64).numpy() * tangent).sum()
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-3)
        assert (tensor.grad.stride(-2) == 1) == (tensor.stride(-2) == 1)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_sums_whose_gradient_is_expanded(rng, device):
    (a, _), (b, y) = operands(rng, tt.bfloat16, "rows", n=43, turned=(False, True))
    a, b = a.to(device).requires_grad_(), b.to(device).requires_grad_()
    tt._grouped_mm(a, b, offs=tt.tensor([8, 24], dtype=tt.int32, device=device)).sum().backward()
    expected = exact(np.ones((24, 43)), y.swapaxes(1, 2), [8, 24], "rows")
    check(a.grad, expected, exact(np.ones((24, 43)), abs(y).swapaxes(1, 2), [8, 24], "rows"), tt.bfloat16, 43)


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_refusals(device):
    def empty(*sizes, dtype=tt.bfloat16):
        return tt.empty(*sizes, dtype=dtype, device=device)

    a, b, offs = empty(16, 8), empty(2, 8, 24), empty(2, dtype=tt.int32)
    assert tt._grouped_mm(a, b, offs=offs).shape == (16, 24)
    refused = [
        (
            (empty(16, 8, dtype=tt.float64), b),
            {"offs": offs},
            "Expected mat_a to be Float32, BFloat16 or Float16",
        ),
        ((empty(16, 8, dtype=tt.float32), b), {"offs": offs}, "expected m1 and m2 to have the same dtype"),
        ((a[0], b), {"offs": offs}, "mat_a has to be 2 or 3d"),
        ((a, empty(2, 16, 24)), {"offs": offs}, "contraction dimension of mat_a and mat_b must match"),
        ((a, b), {}, "Have to provide offsets"),
        ((empty(2, 16, 8), b), {"offs": offs}, "Have to provide offsets"),
        ((a, b), {"offs": offs[None]}, "offs has to be 1D"),
        ((a, b), {"offs": offs.long()}, "Offsets have to be int32"),
        ((a, b), {"offs": empty(3, dtype=tt.int32)}, "matrix batch sizes have to match"),
        ((empty(3, 16, 8), b), {}, "batched dimension has to match"),
        ((empty(16, 9), empty(2, 9, 24)), {"offs": offs}, "strides should be multiple of 16 bytes"),
        ((empty(16, 16)[:, ::2], b), {"offs": offs}, "Invalid strides/sizes"),
        ((a, b), {"offs": offs, "bias": empty(24)}, "Bias not supported yet"),
        ((a, b), {"offs": offs, "out_dtype": tt.float32}, "output dtype must match `mat_a` dtype"),
    ]
    for arguments, named, message in refused:
        with pytest.raises(RuntimeError, match=message):
            tt._grouped_mm(*arguments, **named)


def scaled_operands(rng, kind):
    """Return 8-bit operands, their values times their scales, and the scales."""
    (a, x), (b, y) = operands(rng, tt.float8_e4m3fn, kind, m=16, total=64, n=48, turned=(False, True))
    groups = 2 if kind == "inner" else 1
    rows = (2, 16) if a.ndim == 3 else (a.shape[0] * groups,)
    columns = (2, b.shape[2]) if b.ndim == 3 else (b.shape[1] * groups,)
    return a, b, x, y, *((rng.random(s) + 0.5).astype(np.float32) for s in (rows, columns))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("offs", [[16, 64], [5, 30], [0, 0]], ids=str)
@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
def test_scales_of_rows_and_columns(rng, device, kind, offs, fast):
    a, b, x, y, by_row, by_column = scaled_operands(rng, kind)
    ends = None if kind == "batches" else tt.tensor(offs, dtype=tt.int32, device=device)
    s, t = (tt.from_numpy(v).to(device) for v in (by_row, by_column))
    got = tt._scaled_grouped_mm(a.to(device), b.to(device), s, t, offs=ends, use_fast_accum=fast)
    rows, columns = by_row.astype(np.float64), by_column.astype(np.float64)

    def scaled(x, y):
        if kind == "inner":
            return exact(x, y, offs, kind) * rows.reshape(2, -1, 1) * columns.reshape(2, 1, -1)
        return exact(x * rows[..., None], y * columns[..., None, :], offs, kind)

    check(got, scaled(x, y), scaled(abs(x), abs(y)), tt.bfloat16, 64)


def test_scales_beyond_the_last_group_do_not_count(rng):
    a, b, _, _, by_row, by_column = scaled_operands(rng, "rows")
    by_row[40:] = np.nan
    for device in DEVICES:
        ends, s, t = (tt.tensor([7, 40], dtype=tt.int32), *map(tt.from_numpy, (by_row, by_column)))
        got = tt._scaled_grouped_mm(
            a.to(device), b.to(device), s.to(device), t.to(device), offs=ends.to(device)
        )
        assert (got[40:] == 0).all().item() and got[:40].isfinite().all().item()


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_refusals_of_8_bits(device):
    def empty(*sizes, dtype=tt.float8_e4m3fn):
        return tt.empty(*sizes, dtype=dtype, device=device)

    a, b, offs = empty(32, 16), empty(2, 48, 16).mT, empty(2, dtype=tt.int32)
    s, t = empty(32, dtype=tt.float32), empty(2, 48, dtype=tt.float32)
    got = tt._scaled_grouped_mm(a, b, s, t, offs=offs)
    assert got.shape == (32, 48) and got.dtype is tt.bfloat16
    refused = [
        ((empty(32, 16, dtype=tt.bfloat16), b, s, t), {}, "Expected mat_a to be Float8_e4m3"),
        ((empty(16, 32).t(), b, s, t), {}, "row major"),
        ((a, empty(2, 16, 48), s, t), {}, "column major"),
        ((a, b, s.double(), t), {}, "scale_a.dtype"),
        ((a, b, s[None], t), {}, "Expected scale_a to be 1D"),
        ((a, b, s[1:], t), {}, "Expected scale_a to have sizes"),
        ((a, b, s, t[0]), {}, "Expected scale_b to be 2D"),
        ((a, b, s, t), {"bias": t[0]}, "Bias not supported"),
        ((a, b, s, t), {"scale_result": s[0]}, "Scale result not supported"),
        ((a, b, s, t), {"out_dtype": tt.float32}, "Only bf16"),
    ]
    for arguments, named, message in refused:
        with pytest.raises(RuntimeError, match=message):
            tt._scaled_grouped_mm(*arguments, offs=offs, **named)


def test_devices_before_compute_capability_8_9_refuse(monkeypatch):
    old = driver().properties(0)
    monkeypatch.setattr(driver(), "properties", lambda device: dataclasses.replace(old, major=8, minor=0))
    a, one = tt.empty(2, 16, 112, dtype=tt.float8_e4m3fn, device="cuda"), tt.empty(2, 16, device="cuda")
    with pytest.raises(NotImplementedError, match=r"_scaled_grouped_mm.*8\.9 or later"):
        tt._scaled_grouped_mm(a, a.mT, one, one)


def test_it_is_as_on_the_cpu_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    for kind in LAYOUTS:
        (a, x), (b, y) = operands(rng, tt.bfloat16, kind)
        theirs = torch._grouped_mm(
            *(torch.from_numpy(v.astype(np.float32)).to(torch.bfloat16) for v in (x, y)),
            offs=None if kind == "batches" else torch.tensor([8, 24], dtype=torch.int32),
        )
        ours = call(a, b, [8, 24], kind, "cpu")
        assert ours.stride() == theirs.stride()
        check(ours, theirs.to(torch.float64).numpy(), exact(abs(x), abs(y), [8, 24], kind), tt.bfloat16, 32)
