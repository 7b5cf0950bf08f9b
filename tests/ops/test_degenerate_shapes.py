"""Operands without dimensions or elements, or with dimensions of one: what is refused, which dtype and strides."""

import pytest

import triten as tt


def index_of(*values):
    return tt.tensor(values, dtype=tt.int64)


def test_an_empty_vector_takes_part_in_cats_dtype_and_not_in_its_sizes():
    empty, line = tt.zeros(0, dtype=tt.int64), tt.ones(1)
    for tensors in ((empty, line), (line, empty)):
        joined = tt.cat(tensors)
        assert joined.dtype is tt.float32 and joined.tolist() == [1.0]


def test_a_number_is_expanded_without_strides():
    assert tt.tensor(1.0).expand(1).stride() == (0,)
    assert tt.tensor(1.0).expand(1, 2).stride() == (0, 0)
    assert tt.ones(2).expand(1, 2).stride() == (2, 1)


def test_strides_of_single_elements_do_not_depend_on_what_ran_before():
    x = tt.zeros(1, 1, 4).as_strided((1, 1, 4), (4, 1, 1))
    fresh = [(x + 1).stride(), (x >= 1).stride()]
    for shape in ((1, 1, 4), (2, 1, 4), (1, 3, 4)):
        tt.ones(shape) + 1, tt.ones(shape) >= 1
    y = tt.zeros(1, 1, 5).as_strided((1, 1, 5), (5, 1, 1))
    assert fresh == [(4, 1, 1)] * 2
    assert [(y + 1).stride(), (y >= 1).stride()] == [(5, 1, 1)] * 2


@pytest.mark.parametrize(
    ("self", "source", "dim", "index", "error"),
    [
        ((1,), (), 0, (0,), RuntimeError),
        ((), (1,), 0, (0,), RuntimeError),
        ((2, 1), (2,), 1, (0,), RuntimeError),
        ((2, 2), (1, 2), 2, (0,), IndexError),
        ((), (), 0, (0, 0), IndexError),
        ((2, 2), (2, 2), 0, (0,), RuntimeError),
    ],
)
def test_index_add_takes_slices_of_its_own_shape(self, source, dim, index, error):
    x = tt.zeros(self)
    with pytest.raises(error):
        x.index_add_(dim, index_of(*index), tt.ones(source))
    assert not x.any()


@pytest.mark.parametrize(
    ("self", "source", "index", "error"),
    [
        ((), (2, 1), (0, 0), RuntimeError),
        ((2,), (), (0, 1), IndexError),
        ((2, 2), (2,), (0, 1), IndexError),
        ((2, 2), (2, 1), (0, 1), RuntimeError),
        ((2, 2), (2, 2), (0,), IndexError),
    ],
)
def test_index_copy_takes_slices_of_its_own_shape(self, source, index, error):
    x = tt.zeros(self)
    with pytest.raises(error, match="index_copy_"):
        x.index_copy_(0, index_of(*index), tt.ones(source))
    assert not x.any()


def test_index_copy_of_a_number():
    assert tt.zeros(2).index_copy(0, index_of(1), tt.tensor(3.0)).tolist() == [0.0, 3.0]


def test_index_put_refuses_values_and_indices_that_it_overwrites():
    x = tt.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[index_of(1, 0)] = x[:2]
    places = index_of(1, 0)
    with pytest.raises(RuntimeError, match="single memory location"):
        places.index_put_((places,), index_of(0, 1))
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    x[x > 0] = x[3]
    assert x.tolist() == [0.0, 3.0, 3.0, 3.0]


def test_one_index_into_a_number():
    with pytest.raises(RuntimeError, match="only 1 value"):
        tt.tensor(1.0).index_select(0, index_of(0, 0))


def test_a_change_by_itself_counts():
    x = tt.ones(2)
    x.copy_(x)
    assert x._version == 1


def test_a_view_whose_base_took_part_in_a_graph_is_no_leaf():
    base, weight = tt.zeros(2, 2), tt.ones(2, requires_grad=True)
    view, other = base[0], base[1]
    other.mul_(weight)
    assert view.requires_grad and not view.is_leaf and view.grad_fn is not None


def test_losses_broadcast_before_they_promote():
    narrow = tt.ones(2, dtype=tt.bfloat16)
    for loss in (tt.nn.functional.mse_loss, tt.nn.functional.l1_loss, tt.nn.functional.smooth_l1_loss):
        with pytest.warns(UserWarning, match="different to the input size"):
            assert loss(narrow, tt.tensor(1.0)).dtype is tt.float32
    assert tt.nn.functional.cosine_similarity(narrow[None], tt.tensor(1.0)).dtype is tt.float32


def test_equal_compares_values_of_any_dtypes():
    assert tt.equal(tt.tensor([1, 2]), tt.tensor([1.0, 2.0]))
    assert not tt.equal(tt.tensor([1, 2]), tt.tensor([1.0, 2.5]))


def test_numbers_and_bools_that_have_no_line():
    with pytest.raises(IndexError):
        tt.tensor(1.0).repeat_interleave(2, 0)
    with pytest.raises(RuntimeError, match="unflatten"):
        tt.tensor(1.0).unflatten(0, (1, -1))
    for refused in (tt.trapezoid, tt.cumulative_trapezoid):
        with pytest.raises(RuntimeError, match="bool is not supported"):
            refused(tt.ones(3, dtype=tt.bool))
    assert tt.trapezoid(tt.ones(0, dtype=tt.int32)).dtype is tt.int32
    assert tt.logcumsumexp(tt.zeros(0, dtype=tt.complex64), 0).shape == (0,)


NUMBERS = {
    **{
        f"index_reduce {reduce} {includes}": lambda a, b, r=reduce, i=includes: a.index_reduce(
            0, index_of(0), b, r, include_self=i
        )
        for reduce in ("prod", "mean", "amax", "amin")
        for includes in (True, False)
    },
    **{
        f"scatter_reduce {reduce}": lambda a, b, r=reduce: a.scatter_reduce(0, tt.tensor(0), b, r)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
    },
    **{
        name: lambda a, b, n=name: getattr(a, n)(0, index_of(0), b)
        for name in ("index_add", "index_copy", "index_fill")
    },
    **{name: lambda a, b, n=name: getattr(a, n)(0, tt.tensor(0), b) for name in ("scatter", "scatter_add")},
    **{
        name: lambda a, b, n=name: getattr(a, n)(0)
        for name in ("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax", "sum", "prod", "mean")
    },
    **{name: lambda a, b, n=name: getattr(a, n)(0) for name in ("amax", "amin", "logsumexp", "flip")},
    **{
        name: lambda a, b, n=name: getattr(a, n)(0)[0]
        for name in ("cummax", "cummin", "max", "min", "median", "nanmedian", "mode", "sort")
    },
    "topk": lambda a, b: a.topk(1, 0)[0],
    "kthvalue": lambda a, b: a.kthvalue(1, 0)[0],
    "index_select": lambda a, b: a.index_select(0, index_of(0)),
    "gather": lambda a, b: a.gather(0, tt.tensor(0)),
    "take": lambda a, b: a.take(tt.tensor(0)),
    "put": lambda a, b: a.put(tt.tensor(0), b),
    "masked_scatter": lambda a, b: a.masked_scatter(tt.tensor(True), b),
    "unfold": lambda a, b: a.unfold(0, 1, 1),
    "norm": lambda a, b: a.norm(2, 0),
    "var": lambda a, b: a.var(0, correction=0),
}
"""Functions of tensors without dimensions."""


@pytest.mark.parametrize("name", NUMBERS)
def test_derivatives_of_tensors_without_dimensions(name):
    a, b = (tt.tensor(value, dtype=tt.float64, requires_grad=True) for value in (0.7, -1.3))
    assert tt.autograd.gradcheck(NUMBERS[name], (a, b), check_forward_ad=True)
    assert NUMBERS[name](a, b).ndim == (name == "unfold")
