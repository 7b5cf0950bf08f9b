"""Copies of views, scatters, and writes as functions: PyTorch's values, strides, gradients and refusals."""

import numpy as np
import pytest

import triten as tt

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

COPIES = {
    "view_copy": ((4, 6),),
    "as_strided_copy": ((2, 3), (4, 2), 3),
    "expand_copy": ((5, 2, 3, 4),),
    "permute_copy": ((2, 0, 1),),
    "transpose_copy": (0, 2),
    "select_copy": (1, 2),
    "slice_copy": (2, 1, 4, 2),
    "squeeze_copy": (),
    "unsqueeze_copy": (1,),
    "alias_copy": (),
    "detach_copy": (),
    "diagonal_copy": (1, 1, 2),
    "unfold_copy": (2, 2, 1),
}
SCATTERS = {
    "select_scatter": ((2, 4), (1, 2)),
    "slice_scatter": ((2, 3, 2), (2, 1, 4, 2)),
    "diagonal_scatter": ((2, 3), (1, 1, 2)),
    "as_strided_scatter": ((2, 3), ((2, 3), (12, 4), 3)),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_of_a_view_is_contiguous_and_new(name, device):
    x = tt.from_numpy(X.copy()).to(device)
    made = getattr(tt, name)(x, *COPIES[name])
    view = name.removesuffix("_copy")
    expected = getattr(x, view)(*COPIES[name])
    assert made.tolist() == expected.tolist() and made.is_contiguous() and not made._is_view()
    made.zero_()
    assert x.tolist() == X.tolist()
    turned = x.permute(2, 1, 0)
    if name not in (
        "view_copy",
        "diagonal_copy",
        "as_strided_copy",
        "expand_copy",
        "slice_copy",
        "unfold_copy",
    ):
        assert getattr(tt, name)(turned, *COPIES[name]).is_contiguous()


def test_t_squeeze_and_complex_copies():
    matrix = tt.from_numpy(X[0])
    assert tt.t_copy(matrix).tolist() == X[0].T.tolist() and tt.t_copy(matrix).stride() == (3, 1)
    narrow = tt.ones(2, 1, 3, 1)
    assert tt.squeeze_copy(narrow, 1).shape == (2, 3, 1) and tt.squeeze_copy(narrow, (1, 3)).shape == (2, 3)
    pairs = tt.from_numpy(X[0][:, :2].copy())
    numbers = tt.view_as_complex_copy(pairs)
    assert numbers.tolist() == [0 + 1j, 4 + 5j, 8 + 9j]
    assert tt.view_as_real_copy(numbers).tolist() == pairs.tolist()
    bits = tt.ops.aten.view_copy.dtype(pairs, tt.int32)
    assert bits.dtype is tt.int32 and bits.tolist() == pairs.view(tt.int32).tolist()
    assert tt.view_copy(matrix.t(), (12,)).tolist() == X[0].T.reshape(-1).tolist()


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_put_a_tensor_where_a_view_is(name, device):
    shape, args = SCATTERS[name]
    x = tt.from_numpy(X.copy()).to(device)
    src = tt.full(shape, -1.0, device=device)
    made = getattr(tt, name)(x, src, *args)
    expected = x.clone()
    getattr(expected, name.removesuffix("_scatter"))(*args).copy_(src)
    assert made.tolist() == expected.tolist() and x.tolist() == X.tolist()
    assert getattr(x, name)(src, *args).tolist() == expected.tolist()


def test_scatters_keep_strides_and_refuse_other_shapes():
    x = tt.from_numpy(X.copy()).permute(2, 0, 1)
    assert tt.select_scatter(x, tt.ones(2, 3), 0, 1).stride() == x.stride()
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice of self"):
        tt.select_scatter(x, tt.ones(3), 0, 1)
    with pytest.raises(IndexError, match=r"select.*index 9 out of range"):
        tt.select_scatter(x, tt.ones(2, 3), 0, 9)
    with pytest.raises(RuntimeError, match="reach beyond the elements of self"):
        tt.as_strided_scatter(tt.ones(4), tt.ones(2), (2,), (4,), 0)


@pytest.mark.parametrize("name", [*COPIES, *SCATTERS])
def test_values_and_strides_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    for order in ((0, 1, 2), (2, 1, 0)):
        x, t = tt.from_numpy(X.copy()).permute(order), torch.from_numpy(X.copy()).permute(order)
        if name in COPIES:
            given = theirs = COPIES[name]
        else:
            shape, args = SCATTERS[name]
            given, theirs = (tt.full(shape, -1.0), *args), (torch.full(shape, -1.0), *args)
        try:
            expected = getattr(torch, name)(t, *theirs)
        except RuntimeError:
            continue
        actual = getattr(tt, name)(x, *given)
        assert actual.tolist() == expected.tolist()
        assert name == "as_strided_scatter" or tuple(actual.stride()) == tuple(expected.stride())


GRADIENTS = {
    **{
        name: lambda x, _, name=name: getattr(tt, name)(x, *COPIES[name])
        for name in COPIES
        if name != "detach_copy"
    },
    "t_copy": lambda x, _: tt.t_copy(x[0]),
    "squeeze_copy.dim": lambda x, _: tt.squeeze_copy(x[:, :1], 1),
    "view_as_complex_copy": lambda x, _: tt.view_as_real_copy(tt.view_as_complex_copy(x[..., :2]) * (1 + 2j)),
    "select_scatter": lambda x, y: tt.select_scatter(x, y[0], 0, 1),
    "slice_scatter": lambda x, y: tt.slice_scatter(x, y[:, :2], 1, 0, 3, 2),
    "diagonal_scatter": lambda x, y: tt.diagonal_scatter(x, y[:, :, 0], 1, 1, 2),
    "as_strided_scatter": lambda x, y: tt.as_strided_scatter(x, y[:, :, 0], (2, 3), (12, 4), 3),
    "as_strided_scatter of a transpose": lambda x, y: (
        tt.as_strided_scatter(x.permute(2, 0, 1), y[:, :, 0], (2, 3), (12, 4), 3) * y.permute(2, 0, 1)
    ),
    "copy": lambda x, y: tt.ops.aten.copy.default(x * 2, y[0]),
    "fill.Scalar": lambda x, y: tt.fill(x * y, 2) + y,
    "fill.Tensor": lambda x, y: tt.fill(x * y, y[0, 0, 0]) + x,
    "zero": lambda x, y: tt.ops.aten.zero.default(x * y) + y,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    rng = np.random.default_rng(0)
    x, y = (tt.from_numpy(rng.standard_normal((2, 3, 4))).requires_grad_() for _ in range(2))

    def f(x, y):
        return GRADIENTS[name](x * 1, y)

    assert tt.autograd.gradcheck(f, (x, y))
    assert tt.autograd.gradgradcheck(lambda x, y: f(x * x, y * y), (x, y))


def test_a_write_as_a_function_leaves_its_argument():
    aten = tt.ops.aten
    base = tt.arange(6.0).view(2, 3).t()
    indices = tt.tensor([0, 2])
    before = base.tolist()
    calls = {
        "copy.default": (base, tt.ones(2)),
        "zero.default": (base,),
        "fill.Scalar": (base, 3),
        "embedding_renorm.default": (base, indices, 0.5, 2.0),
        "uniform.default": (base, 2.0, 3.0),
        "normal_functional.default": (base, 5.0, 0.1),
        "log_normal.default": (base,),
        "cauchy.default": (base,),
        "exponential.default": (base, 2.0),
        "geometric.default": (base, 0.5),
        "random.from": (base, 2, 5),
        "random.to": (base, 5),
        "random.default": (base,),
        "bernoulli.Tensor": (base, tt.full((3, 2), 0.5)),
        "bernoulli.float": (base, 0.5),
        "_restride.default": (base, (2, 1)),
    }
    for name, args in calls.items():
        packet, _, overload = name.partition(".")
        tt.manual_seed(0)
        made = getattr(getattr(aten, packet), overload)(*args)
        assert base.tolist() == before, name
        assert made.stride() == ((2, 1) if packet == "_restride" else base.stride()), name
        written = {"_restride": "copy_", "normal_functional": "normal_"}.get(packet, packet + "_")
        target = tt.empty_strided((3, 2), made.stride()).copy_(base)
        tt.manual_seed(0)
        place = aten.fill_.Scalar if packet == "fill" else None
        args = (base,) if packet == "_restride" else args[1:]
        write = place or getattr(getattr(aten, written), overload)
        assert write(target, *args).tolist() == made.tolist(), name


def test_data_of_a_program_is_copied():
    x = tt.ones(2)
    made = tt.ops.aten.lift_fresh_copy.default(x)
    made.zero_()
    assert x.tolist() == [1.0, 1.0]
