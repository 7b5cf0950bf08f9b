"""Views: geometry as NumPy has it, bytes and version shared, PyTorch's errors, gradients."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.autograd.gradients import grad


def arange(*sizes, dtype=np.float64):
    return np.arange(np.prod(sizes, dtype=int), dtype=dtype).reshape(sizes)


# Each row: name, the view of a tensor, the same of an ndarray, the sizes it is tried on.
VIEWS = [
    ("view", lambda x: x.view(4, 6), lambda a: a.reshape(4, 6), (2, 3, 4)),
    ("view_infer", lambda x: x.view(-1, 6), lambda a: a.reshape(-1, 6), (2, 3, 4)),
    ("reshape", lambda x: x.reshape((6, 4)), lambda a: a.reshape(6, 4), (2, 3, 4)),
    ("transpose", lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, -1), (2, 3, 4)),
    ("t", lambda x: x.t(), lambda a: a.T, (2, 3)),
    ("permute", lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1), (2, 3, 4)),
    ("movedim", lambda x: x.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1), (2, 3, 4)),
    (
        "movedim_many",
        lambda x: x.movedim((0, 1), (2, 0)),
        lambda a: np.moveaxis(a, (0, 1), (2, 0)),
        (2, 3, 4),
    ),
    ("swapaxes", lambda x: x.swapaxes(1, 2), lambda a: a.swapaxes(1, 2), (2, 3, 4)),
    ("expand", lambda x: x.expand(5, -1, 3), lambda a: np.broadcast_to(a, (5, 2, 3)), (2, 1)),
    ("broadcast_to", lambda x: tt.broadcast_to(x, (4, 3)), lambda a: np.broadcast_to(a, (4, 3)), (3,)),
    ("narrow", lambda x: x.narrow(1, -2, 2), lambda a: a[:, -2:], (2, 3)),
    ("slice", lambda x: x[:, 1:9:2], lambda a: a[:, 1:9:2], (2, 7)),
    ("select", lambda x: x.select(1, -1), lambda a: a[:, -1], (2, 3)),
    ("row", lambda x: x[1], lambda a: a[1], (2, 3)),
    ("element", lambda x: x[1, 2], lambda a: a[1, 2], (2, 3)),
    ("basic_index", lambda x: x[..., None, 1, ::2], lambda a: a[..., None, 1, ::2], (2, 3, 4)),
    ("diagonal", lambda x: x.diagonal(1, 0, 2), lambda a: np.diagonal(a, 1, 0, 2), (3, 2, 4)),
    ("diagonal_low", lambda x: x.diagonal(-1), lambda a: np.diagonal(a, -1), (3, 4)),
    (
        "unfold",
        lambda x: x.unfold(0, 3, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 0)[::2],
        (8, 2),
    ),
    ("squeeze", lambda x: x.squeeze(), lambda a: a.squeeze(), (1, 3, 1)),
    ("squeeze_dim", lambda x: x.squeeze(0), lambda a: a.squeeze(0), (1, 3, 1)),
    ("unsqueeze", lambda x: x.unsqueeze(-1), lambda a: a[..., None], (2, 3)),
    ("flatten", lambda x: x.flatten(1), lambda a: a.reshape(2, 12), (2, 3, 4)),
    ("unflatten", lambda x: x.unflatten(1, (2, -1)), lambda a: a.reshape(2, 2, 3), (2, 6)),
    (
        "as_strided",
        lambda x: x.as_strided((2, 2), (1, 2), 1),
        lambda a: np.array([[1, 3], [2, 4]]) * 1.0,
        (3, 3),
    ),
    (
        "overlapping",
        lambda x: x.as_strided((3, 2), (1, 1)),
        lambda a: np.array([[0, 1], [1, 2], [2, 3]]) * 1.0,
        (5,),
    ),
    ("T", lambda x: x.T, lambda a: a.T, (2, 3)),
    ("mT", lambda x: x.mT, lambda a: a.swapaxes(-1, -2), (2, 3, 4)),
    ("adjoint", lambda x: x.adjoint(), lambda a: a.swapaxes(-1, -2), (2, 3, 4)),
    ("split", lambda x: x.split(2)[1], lambda a: a[2:4], (5, 2)),
    ("split_sizes", lambda x: x.split([1, 4], 0)[1], lambda a: a[1:], (5, 2)),
    ("chunk", lambda x: x.chunk(3, 1)[2], lambda a: a[:, 4:], (2, 5)),
    ("tensor_split", lambda x: x.tensor_split(3)[1], lambda a: np.array_split(a, 3)[1], (7, 2)),
    ("tensor_split_at", lambda x: x.tensor_split((1, 3), dim=0)[1], lambda a: a[1:3], (7, 2)),
    ("unbind", lambda x: x.unbind(1)[2], lambda a: a[:, 2], (2, 3)),
]
NAMES = [row[0] for row in VIEWS]


@pytest.mark.parametrize("row", VIEWS, ids=NAMES)
def test_a_view_has_numpys_elements_and_shares_bytes_and_version(row):
    _, view, reference, sizes = row
    a = arange(*sizes)
    x = tt.from_numpy(a.copy())
    got = view(x)
    want = reference(a)
    assert tuple(got.shape) == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    assert got._base is x
    version = x.current_version()
    first = got[(0,) * got.ndim] if got.ndim else got
    first.fill_(-1.0)
    assert (x.numpy() == -1).sum() == 1
    assert x.current_version() == got.current_version() == version + 1


@pytest.mark.parametrize("row", VIEWS, ids=NAMES)
def test_a_view_on_meta_has_the_same_geometry(row):
    _, view, _, sizes = row
    x = tt.from_numpy(arange(*sizes))
    here, there = view(x), view(x.to("meta"))
    assert (here.shape, here.stride(), here.storage_offset()) == (
        there.shape,
        there.stride(),
        there.storage_offset(),
    )
    assert there.is_meta


@pytest.mark.parametrize("row", VIEWS, ids=NAMES)
def test_gradients_of_views_are_their_adjoints(row):
    """For a linear map the gradient of <v, A x> is A^T v, and the gradient of that in v is A itself."""
    _, view, _, sizes = row
    rng = np.random.default_rng(0)
    a = rng.standard_normal(sizes)
    x = tt.from_numpy(a).requires_grad_()
    out = view(x)
    v = tt.from_numpy(rng.standard_normal(tuple(out.shape))).requires_grad_()
    (g,) = grad(out, [x], [v], create_graph=True)
    unit = np.zeros(sizes)
    expected = np.zeros(sizes)
    for place in np.ndindex(*sizes):
        unit[place] = 1
        expected[place] = (view(tt.from_numpy(unit.copy())).numpy() * v.detach().numpy()).sum()
        unit[place] = 0
    np.testing.assert_allclose(g.detach().numpy(), expected, rtol=1e-12)
    u = tt.from_numpy(rng.standard_normal(sizes))
    (second,) = grad(g, [v], [u])
    np.testing.assert_allclose(second.numpy(), view(u).numpy(), rtol=1e-12)


def test_views_of_views_keep_the_first_base_and_its_addresses():
    x = tt.zeros(4, 6)
    y = x[1:, 2:].t()[1]
    assert y._base is x
    assert y.storage_offset() == 9 and y.stride() == (6,)
    assert y.data_ptr() == x.data_ptr() + 9 * 4
    assert y.untyped_storage() is x.untyped_storage()


def test_a_view_of_a_read_only_tensor_is_read_only():
    a = np.zeros((2, 3))
    a.flags.writeable = False
    for view in (lambda x: x[0], lambda x: x.t(), lambda x: x[:, 1:], lambda x: x.view(6)):
        with pytest.raises(RuntimeError, match="read-only"):
            view(tt.from_numpy(a)).fill_(1.0)


def test_all_parts_of_a_split_share_the_base():
    x = tt.from_numpy(arange(6, 2))
    for parts in (x.split(4), x.chunk(2), x.unbind(), x.tensor_split(2), x.split_with_sizes([2, 4])):
        assert isinstance(parts, tuple) and all(p._base is x for p in parts)
    assert [p.shape[0] for p in x.split(4)] == [4, 2]
    assert len(tt.ones(5).chunk(4)) == 3
    assert [tuple(p.shape) for p in tt.ones(0, 3).chunk(3)] == [(0, 3)] * 3


@pytest.mark.parametrize(
    ("source", "target", "sizes"),
    [
        ("float32", "int32", (3, 4)),
        ("float32", "int16", (3, 8)),
        ("float32", "float64", (3, 2)),
        ("int64", "uint8", (3, 32)),
    ],
)
def test_view_as_another_dtype_reads_the_same_bytes(source, target, sizes):
    a = arange(3, 4).astype(source)
    x = tt.from_numpy(a)
    got = x.view(getattr(tt, target))
    assert tuple(got.shape) == sizes and got._base is None, "no view that autograd would follow"
    np.testing.assert_array_equal(got.numpy(), a.view(target))
    assert tuple(x.to("meta").view(getattr(tt, target)).shape) == sizes


def test_complex_views():
    z = tt.from_numpy(np.array([[1 + 2j, 3 + 4j]]))
    pairs = tt.view_as_real(z)
    assert tuple(pairs.shape) == (1, 2, 2) and pairs.stride() == (4, 2, 1)
    np.testing.assert_array_equal(tt.real(z).numpy(), [[1, 3]])
    np.testing.assert_array_equal(z.imag.numpy(), [[2, 4]])
    assert z.imag.data_ptr() == z.data_ptr() + 8
    np.testing.assert_array_equal(tt.view_as_complex(pairs).numpy(), z.numpy())
    z.real = tt.zeros(1, 2, dtype=tt.float64)
    np.testing.assert_array_equal(z.numpy(), [[2j, 4j]])
    x = tt.ones(2)
    assert tt.real(x) is x


ERRORS = [
    (lambda x: x.view(5), RuntimeError, "shape '[5]' is invalid for input of size 12"),
    (lambda x: x.t().view(12), RuntimeError, "view size is not compatible"),
    (lambda x: x.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda x: x.t().view(tt.float64), RuntimeError, "self.stride(-1)|divisible by 2"),
    (
        lambda x: x[:, :3].view(tt.float64),
        RuntimeError,
        "self.size(-1) must be divisible by 2 to view Float as Double",
    ),
    (lambda x: x[:, 1:3].view(tt.float64), RuntimeError, "self.storage_offset() must be divisible by 2"),
    (lambda x: x[0, 0].view(tt.int16), RuntimeError, "self.dim() cannot be 0 to view Float as Short"),
    (lambda x: x.permute(0, 0), RuntimeError, "duplicate dims"),
    (lambda x: x.permute(0), RuntimeError, "number of dimensions"),
    (lambda x: x.transpose(0, 2), IndexError, "Dimension out of range"),
    (
        lambda x: x.expand(2, 4),
        RuntimeError,
        "The expanded size of the tensor (2) must match the existing size (3)",
    ),
    (
        lambda x: x.expand(-2, 2, 5),
        RuntimeError,
        "The expanded size of the tensor (5) must match the existing size (4) at non-singleton dimension 2.",
    ),
    (lambda x: x[:1].expand(-2, 4), RuntimeError, "sizes must be -1 or not negative, got [-2, 4]"),
    (lambda x: x.narrow(0, 2, 3), RuntimeError, "start (2) + length (3) exceeds dimension size (3)."),
    (lambda x: x.narrow(0, 4, 1), IndexError, "start out of range"),
    (
        lambda x: x.select(0, 3),
        IndexError,
        "select(): index 3 out of range for tensor of size [3, 4] at dimension 0",
    ),
    (lambda x: x.slice(0, 0, 3, -1), RuntimeError, "slice step must be positive"),
    (lambda x: x.diagonal(0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
    (lambda x: x.unfold(0, 5, 1), RuntimeError, "maximum size for tensor at dimension 0 is 3 but size is 5"),
    (lambda x: x.unfold(0, 2, 0), RuntimeError, "step is 0 but must be > 0"),
    (lambda x: x.flatten(1, 0), RuntimeError, "start_dim cannot come after end_dim"),
    (lambda x: x.unflatten(0, (2, 2)), RuntimeError, "don't multiply up to the size of dim 0 (3)"),
    (lambda x: x.split([1, 1]), RuntimeError, "split_sizes to sum exactly to 3"),
    (lambda x: x.split(0), RuntimeError, "split_size can only be 0 if dimension size is 0"),
    (lambda x: x.chunk(0), RuntimeError, "chunk expects `chunks` to be greater than 0, got: 0"),
    (lambda x: x.tensor_split(0), RuntimeError, "number of sections must be larger than 0, got 0"),
    (lambda x: x.as_strided((3,), (9,)), RuntimeError, "out of bounds for storage of size 48"),
    (lambda x: x.as_strided((3,), (-1,)), RuntimeError, "Negative strides are not supported"),
    (lambda x: x.as_strided((3,), (1, 1)), RuntimeError, "mismatch in length of strides and shape"),
    (lambda x: x.movedim((0, 1), (0, 0)), RuntimeError, "repeated dim in `destination`"),
    (lambda x: tt.imag(x), RuntimeError, "imag is not implemented for tensors with non-complex dtypes."),
    (lambda x: tt.view_as_real(x), RuntimeError, "only supported for complex tensors"),
    (lambda x: tt.view_as_complex(x), RuntimeError, "Tensor must have a last dimension of size 2"),
    (lambda x: x[0].mT, RuntimeError, "only supported on matrices"),
    (lambda x: x.unsqueeze(0).H, RuntimeError, "only supported on matrices (2-D tensors)"),
    (lambda x: x[0, 0].unbind(), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
]


def test_the_dtype_of_a_view_by_keyword(device):
    x = tt.ones(2, 4, device=device)
    assert x.view(dtype=tt.int32).tolist() == x.view(tt.int32).tolist() == [[1065353216] * 4] * 2
    assert x.view(dtype=tt.int16).shape == (2, 8)
    assert tt.view_copy(x, dtype=tt.int16).shape == (2, 8)
    with pytest.raises(TypeError, match=r"view\(\)"):
        x.view(4, 2, dtype=tt.int32)
    with pytest.raises(TypeError, match=r"view\(\)"):
        x.view()


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_refusals_are_pytorchs(call, kind, words):
    import re

    pattern = "|".join(re.escape(w) for w in words.split("|"))
    with pytest.raises(kind, match=pattern):
        call(tt.from_numpy(arange(3, 4, dtype=np.float32)))


def test_an_argument_read_from_a_tensor_is_read_at_each_call():
    x = tt.from_numpy(arange(5, 2))
    start = tt.tensor(1)
    assert x.narrow(0, start, 1).tolist() == [[2.0, 3.0]]
    start.fill_(3)
    assert x.narrow(0, start, 1).tolist() == [[6.0, 7.0]]
    assert x[start:].shape[0] == 2
    start.fill_(4)
    assert x[start:].shape[0] == 1


def test_narrow_on_meta_needs_no_value_of_its_start():
    x = tt.empty(5, 4, device="meta")
    start = tt.empty((), dtype=tt.int64, device="meta")
    assert x.narrow(0, start, 2).shape == (2, 4)
    assert x.t().narrow(-1, start, 3).stride() == (1, 4)
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        x.narrow(0, start, 6)
    with pytest.raises(RuntimeError, match="meta"):
        tt.ones(5, 4).narrow(0, start, 2)


def test_writes_to_views_reach_the_base_under_autograd():
    x = tt.ones(3, 4).requires_grad_()
    y = x.clone()
    y[1] = 0.0
    y[:, 2] = tt.from_numpy(np.full(3, 5.0, np.float32))
    y.sum().backward()
    expected = np.ones((3, 4), np.float32)
    expected[1] = 0
    expected[:, 2] = 0
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[0] = 1.0


def test_the_gradient_of_a_strided_view_of_an_overlapping_input_is_shared_out():
    x = tt.ones(3).requires_grad_()
    spread = x.expand(2, 3)
    spread.as_strided((3,), (1,)).backward(tt.ones(3))
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_number_is_its_own_transpose():
    number = tt.tensor(2.0)
    assert number.mT is number and number.adjoint() is number
