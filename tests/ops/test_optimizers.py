"""Steps of optimizers over lists of tensors: against float64, against PyTorch, layouts, edges, refusals, forms."""

import itertools

import numpy as np
import pytest

import triten as tt
from triten.tests.shared.operands import ADAM, SGD

DTYPES = [tt.float32, tt.float64, tt.float16, tt.bfloat16]
ROUNDING = {tt.float32: 3e-6, tt.float64: 1e-13, tt.float16: 3e-3, tt.bfloat16: 2e-2}
SHAPES = [(3,), (0,), (5, 7), (), (1031,), (2, 1, 3)]
SGD_CHANGES = [
    {},
    {"weight_decay": 0.1, "maximize": True},
    {"momentum": 0.9, "is_first_step": True},
    {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"momentum": 0.9, "nesterov": True, "maximize": True},
]
ADAM_CHANGES = [
    {},
    {"weight_decay": 0.1, "maximize": True},
    {"amsgrad": True, "weight_decay": 0.1},
    {"beta1": 0.3, "beta2": 0.5},
    {"beta1": 0.0, "amsgrad": True},
]


def lists(rng, count, dtype, shapes=SHAPES):
    """So many lists of arrays in float64 whose values the dtype holds; from the fourth on none is negative."""
    made = [[rng.standard_normal(shape) for shape in shapes] for _ in range(count)]
    made = [
        [np.abs(a) if place >= 3 else a for a in (np.asarray(x) for x in row)]
        for place, row in enumerate(made)
    ]
    return [[a.astype(dtype.np).astype(np.float64) for a in row] for row in made]


def tensors(rows, dtype, device="cpu"):
    return [[tt.tensor(a.astype(np.float64)).to(dtype).to(device) for a in row] for row in rows]


def values(row):
    return [t.cpu().to(tt.float64).numpy() for t in row]


def close(found, expected, tolerance, note=""):
    for place, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(got, wanted, tolerance, tolerance, err_msg=f"{note}, row {place}")


def sgd_in_float64(p, g, b, scale, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step):
    g = g if scale is None else g / scale
    kept = g
    g = -g if maximize else g
    g = g + weight_decay * p
    if momentum:
        b = g if is_first_step else momentum * b + (1 - dampening) * g
        g = g + momentum * b if nesterov else b
    return p - lr * g, kept, b


def adam_in_float64(
    decoupled, p, g, m, v, x, step, scale, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize
):
    g = g if scale is None else g / scale
    kept = g
    g = -g if maximize else g
    p, g = (p * (1 - lr * weight_decay), g) if decoupled else (p, g + weight_decay * p)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    x = np.maximum(x, v) if amsgrad else x
    denominator = np.sqrt(x if amsgrad else v) / np.sqrt(1 - beta2**step) + eps
    return p - lr / (1 - beta1**step) * m / denominator, kept, m, v, x


@pytest.mark.parametrize("scale", [None, 4.0])
@pytest.mark.parametrize("changes", SGD_CHANGES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_sgd_is_what_float64_gives(rng, dtype, changes, scale):
    options = SGD | changes
    rows = lists(rng, 3, dtype)
    p, g, b = tensors(rows, dtype)
    buffers = b if options["momentum"] else []
    tt._fused_sgd_(p, g, buffers, **options, grad_scale=None if scale is None else tt.tensor(scale))
    expected = [sgd_in_float64(*row, scale, **options) for row in zip(*rows, strict=True)]
    for found, wanted in zip((p, g, b), zip(*expected, strict=True), strict=True):
        close(values(found), wanted, ROUNDING[dtype])


@pytest.mark.parametrize("scale", [None, 4.0])
@pytest.mark.parametrize("changes", ADAM_CHANGES, ids=str)
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_adam_is_what_float64_gives(rng, dtype, name, changes, scale):
    options = ADAM | changes
    rows = lists(rng, 5, dtype)
    p, g, m, v, x = tensors(rows, dtype)
    steps = [tt.tensor(float(place + 1)) for place in range(len(p))]
    largest = x if options["amsgrad"] else []
    scaled = None if scale is None else tt.tensor(scale)
    getattr(tt, name)(p, g, m, v, largest, steps, **options, grad_scale=scaled)
    expected = [
        adam_in_float64(name == "_fused_adamw_", *row, place + 1, scale, **options)
        for place, row in enumerate(zip(*rows, strict=True))
    ]
    for found, wanted in zip((p, g, m, v, x), zip(*expected, strict=True), strict=True):
        # The step divides by what may be small, so that errors of the averages grow.
        close(values(found), wanted, ROUNDING[dtype] * (5 if found is p else 1))


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=lambda d: d.name)
def test_what_pytorch_gives(rng, dtype):
    """PyTorch's vectorised SGD in 16-bit floats is wrong on the CPU (2.13), and is not asked."""
    torch = pytest.importorskip("torch")
    peer = getattr(torch, dtype.name)
    for changes, scale in itertools.product(SGD_CHANGES, (None, 4.0)):
        rows, options = lists(rng, 3, dtype), SGD | changes
        ours, theirs = tensors(rows, dtype), [[torch.tensor(a).to(peer) for a in row] for row in rows]
        for library, (p, g, b) in ((tt, ours), (torch, theirs)):
            scaled = None if scale is None else library.tensor(scale)
            library._fused_sgd_(p, g, b if options["momentum"] else [], **options, grad_scale=scaled)
        for found, wanted in zip(ours, theirs, strict=True):
            close(
                values(found),
                [t.double().numpy() for t in wanted],
                ROUNDING[dtype],
                str(changes),
            )
    for name, changes in itertools.product(("_fused_adam_", "_fused_adamw_"), ADAM_CHANGES):
        rows, options = lists(rng, 5, dtype), ADAM | changes
        ours, theirs = tensors(rows, dtype), [[torch.tensor(a).to(peer) for a in row] for row in rows]
        for library, (p, g, m, v, x) in ((tt, ours), (torch, theirs)):
            steps = [library.tensor(3.0) for _ in p]
            getattr(library, name)(p, g, m, v, x if options["amsgrad"] else [], steps, **options)
        for found, wanted in zip(ours, theirs, strict=True):
            close(
                values(found),
                [t.double().numpy() for t in wanted],
                5 * ROUNDING[dtype],
                str(changes),
            )


@pytest.mark.parametrize("order", [(1, 0), (1, 2, 0), (0, 3, 1, 2)])
def test_memory_in_any_order(order):
    """Check that permuted dense tensors are updated in place."""
    sizes = (4, 3, 5, 2)[: len(order)]
    rng = np.random.default_rng(3)
    p, g = (rng.standard_normal(sizes).transpose(order) for _ in range(2))
    ours = [tt.from_numpy(a.copy(order="K")) for a in (p, g)]
    assert not ours[0].is_contiguous()
    tt._fused_sgd_([ours[0]], [ours[1]], [], **SGD)
    np.testing.assert_allclose(ours[0].numpy(), p - 0.1 * g, 1e-15)


def test_views_are_written_in_place_and_nothing_beside_them():
    whole = tt.zeros(10, dtype=tt.float64)
    part = whole[3:7]
    tt._fused_sgd_([part], [tt.ones(4, dtype=tt.float64)], [], **SGD)
    assert whole.tolist() == [0.0] * 3 + [-0.1] * 4 + [0.0] * 3
    assert whole._version == part._version == 1


@pytest.mark.parametrize("changes", [{}, {"momentum": 0.9}], ids=str)
def test_infinities_that_were_found_leave_everything_as_it_was(changes):
    p, g, b = ([tt.tensor([1.0, 2.0])] for _ in range(3))
    amp = {"grad_scale": tt.tensor(2.0), "found_inf": tt.tensor(1.0)}
    tt._fused_sgd_(p, g, b if changes else [], **SGD | changes, **amp)
    assert [t.tolist() for t in (*p, *g, *b)] == [[1.0, 2.0]] * 3
    m, v = [tt.zeros(2)], [tt.zeros(2)]
    tt._fused_adamw_(p, g, m, v, [], [tt.ones(())], **ADAM, **amp)
    assert [t.tolist() for t in (*p, *g, *m, *v)] == [[1.0, 2.0]] * 2 + [[0.0, 0.0]] * 2
    tt._fused_sgd_(p, g, b if changes else [], **SGD | changes, found_inf=tt.tensor(0.0))
    assert p[0].tolist() != [1.0, 2.0]


def test_nan_and_inf_stay_where_they_are():
    p = [tt.zeros(6)]
    g = [tt.tensor([1.0, float("nan"), 1.0, float("inf"), -float("inf"), 1.0])]
    m, v, x = [tt.zeros(6)], [tt.zeros(6)], [tt.tensor([0.0, 0.0, float("nan"), 0.0, 0.0, 0.0])]
    tt._fused_adamw_(p, g, m, v, x, [tt.ones(())], **ADAM | {"amsgrad": True})
    assert np.isnan(p[0].numpy()).tolist() == [False, True, True, True, True, False]
    assert np.isnan(x[0].numpy()).tolist() == [False, True, True, False, False, False]
    assert v[0][3].item() == float("inf")


def test_the_rate_may_be_a_tensor():
    for rate in (tt.tensor(0.1, dtype=tt.float64), tt.tensor([0.1], dtype=tt.float64), 0.1):
        p = [tt.ones(3, dtype=tt.float64)]
        tt._fused_sgd_(p, [tt.ones(3, dtype=tt.float64)], [], **SGD | {"lr": rate})
        assert p[0].tolist() == [0.9] * 3
        p = [tt.ones(3, dtype=tt.float64)]
        zeros = [[tt.zeros(3, dtype=tt.float64)] for _ in range(2)]
        tt._fused_adam_(p, [tt.ones(3, dtype=tt.float64)], *zeros, [], [tt.ones(())], **ADAM | {"lr": rate})
        np.testing.assert_allclose(p[0].numpy(), 0.9)


def test_a_scale_of_one_element():
    grads = [tt.tensor([2.0, 4.0]), tt.tensor([8.0], dtype=tt.float64), tt.zeros(0)]
    found = tt.zeros(())
    tt._amp_foreach_non_finite_check_and_unscale_(grads, found, tt.tensor(0.5))
    assert [g.tolist() for g in grads] == [[1.0, 2.0], [4.0], []]
    assert found.item() == 0
    for bad in (float("nan"), float("inf"), -float("inf")):
        grads = [tt.ones(3), tt.tensor([1.0, bad]), tt.ones(4)[::2]]
        found = tt.zeros(1)
        tt._amp_foreach_non_finite_check_and_unscale_(grads, found, tt.tensor([2.0]))
        assert found.item() == 1
        assert grads[2].tolist() == [2.0, 2.0]
    gaps = tt.full((4,), float("nan"))
    found = tt.zeros(())
    tt._amp_foreach_non_finite_check_and_unscale_([gaps[::2]], found, tt.tensor(1.0))
    assert found.item() == 1
    large = [tt.full((4,), 3e38)]
    found = tt.zeros(())
    tt._amp_foreach_non_finite_check_and_unscale_(large, found, tt.tensor(0.5))
    assert found.item() == 0


def test_gradients_may_be_recorded():
    """Check that a step records no graph in either grad mode, as in PyTorch."""
    p = tt.ones(3, requires_grad=True)
    tt._fused_sgd_([p], [tt.ones(3)], [], **SGD)
    assert p.is_leaf
    assert p.requires_grad
    assert p._version == 1


REFUSALS = [
    (RuntimeError, r"Expected grads\.size\(\) == n_tensors", ([2, 2], [2], []), {}),
    (RuntimeError, r"Expected momentum_buffer_list\.size\(\)", ([2], [2], [2, 2]), {}),
    (RuntimeError, r"Expected momentum_buffer_list\.size\(\)", ([2], [2], []), {"momentum": 0.9}),
    (RuntimeError, r"expected grads\[0\] to have the sizes \[2\]", ([2], [3], []), {}),
    (RuntimeError, "1-element tensor, got 2", ([2], [2], []), {"found_inf": 2}),
    (RuntimeError, "found_inf must be a 1-element", ([2], [2], []), {"found_inf": 0}),
    (RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar", ([2], [2], []), {"lr": 2}),
]


@pytest.mark.parametrize(("error", "message", "sizes", "changes"), REFUSALS, ids=[r[1] for r in REFUSALS])
def test_what_sgd_refuses(error, message, sizes, changes):
    rows = [[tt.ones(size) for size in row] for row in sizes]
    options = SGD | {k: tt.ones(v) if isinstance(v, int) else v for k, v in changes.items()}
    with pytest.raises(error, match=message):
        tt._fused_sgd_(*rows, **options)
    assert all(t.tolist() == [1.0] * t.numel() for row in rows for t in row)


def test_dtypes_and_layouts_that_are_refused():
    with pytest.raises(RuntimeError, match=r"expected scalar type Float but found Double in grads\[0\]"):
        tt._fused_sgd_([tt.ones(2)], [tt.ones(2, dtype=tt.float64)], [], **SGD)
    for dtype in (tt.int32, tt.bool, tt.complex64):
        one = tt.ones(2, dtype=dtype)
        with pytest.raises(
            NotImplementedError, match=f'"fused_sgd_kernel" not implemented for .{dtype.scalar_name}'
        ):
            tt._fused_sgd_([one], [one], [], **SGD)
    with pytest.raises(RuntimeError, match=r"self\[0\] to be non-overlapping and dense"):
        tt._fused_sgd_([tt.ones(4)[::2]], [tt.ones(2)], [], **SGD)
    with pytest.raises(RuntimeError, match=r"grads\[0\] to have the sizes .* and strides"):
        tt._fused_sgd_([tt.ones(2, 3)], [tt.ones(3, 2).t()], [], **SGD)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double in grad_scale"):
        tt._fused_sgd_([tt.ones(2)], [tt.ones(2)], [], **SGD, grad_scale=tt.ones((), dtype=tt.float64))


def test_what_adam_refuses():
    one, step = [tt.ones(2)], [tt.ones(())]
    for message, args, changes in (
        (r"Expected max_exp_avg_sqs\.empty\(\)", (one, one, one, one, one, step), {}),
        (r"Expected max_exp_avg_sqs\.size\(\)", (one, one, one, one, [], step), {"amsgrad": True}),
        (r"Expected state_steps\.size\(\)", (one, one, one, one, [], []), {}),
        (r"Expected exp_avg_sqs\.size\(\)", (one, one, one, [], [], step), {}),
        ("a Tensor with 2 elements", (one, one, one, one, [], one), {}),
    ):
        with pytest.raises(RuntimeError, match=message):
            tt._fused_adam_(*args, **ADAM | changes)
    with pytest.raises(NotImplementedError, match='"fused_adam_kernel" not implemented'):
        tt._fused_adamw_(*[[tt.ones(2, dtype=tt.int64)]] * 4, [], step, **ADAM)


def test_the_functional_and_the_out_form():
    p, g, b = [tt.ones(2)], [tt.full((2,), 2.0)], [tt.zeros(2)]
    options = SGD | {"momentum": 0.5}
    scale = tt.tensor(2.0)
    new, unscaled, buffers = tt.ops.aten._fused_sgd(p, g, b, **options, grad_scale=scale)
    assert [t[0].tolist() for t in (p, g, b)] == [[1.0] * 2, [2.0] * 2, [0.0] * 2]
    np.testing.assert_allclose(new[0].numpy(), [0.9, 0.9])
    assert (unscaled[0].tolist(), buffers[0].tolist()) == ([1.0, 1.0], [1.0, 1.0])
    out = [tt.empty(2)]
    assert tt.ops.aten._fused_sgd.out(p, g, b, **options, grad_scale=scale, out=out) is None
    assert out[0].tolist() == new[0].tolist()
    assert (p[0].tolist(), g[0].tolist(), b[0].tolist()) == ([1.0] * 2, [1.0] * 2, [1.0] * 2)
    for name in ("_fused_adam", "_fused_adamw"):
        m, v, step = [tt.zeros(2)], [tt.zeros(2)], [tt.ones(())]
        results = getattr(tt.ops.aten, name)(p, g, m, v, [], step, **ADAM | {"lr": tt.tensor(0.1)})
        np.testing.assert_allclose(results[0][0].numpy(), [0.9, 0.9], 1e-6)
        assert len(results) == 5
        assert m[0].tolist() == [0.0, 0.0]
        getattr(tt.ops.aten, name).out(p, g, m, v, [], step, **ADAM, out=out)
        np.testing.assert_allclose(out[0].numpy(), [0.9, 0.9], 1e-6)
        np.testing.assert_allclose(m[0].numpy(), [0.1, 0.1], 1e-6)
    grads, found = tt.ops.aten._amp_foreach_non_finite_check_and_unscale(
        [tt.ones(2)], tt.zeros(1), tt.ones(())
    )
    assert (grads[0].tolist(), found.item()) == ([1.0, 1.0], 0.0)


def test_meta_checks_and_computes_nothing():
    p = [tt.ones(2, device="meta")]
    tt._fused_sgd_(p, p, [], **SGD)
    with pytest.raises(RuntimeError, match="non-overlapping and dense"):
        tt._fused_sgd_([p[0].expand(3, 2)], [p[0].expand(3, 2)], [], **SGD)


def test_no_tensors():
    with pytest.raises(NotImplementedError, match="_fused_sgd_"):
        tt._fused_sgd_([], [], [], **SGD)
