"""Loops over host tensors agree with NumPy: for_each, cpu_kernel, reductions, DimCounter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import triten as tt
from triten.dispatch.iterator.dim_counter import DimCounter
from triten.dispatch.iterator.loops import cpu_kernel
from triten.dispatch.iterator.tensor_iterator import (
    TensorIterator,
    TensorIteratorConfig,
    review_reduce_result,
)
from triten.runtime.parallel import get_num_threads, set_num_threads


@pytest.fixture(params=[1, 3])
def threads(request):
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def numpy_of(tensor) -> np.ndarray:
    return np.array(tensor.tolist())


def layouts(x):
    """Yield one tensor in several layouts of the same values."""
    yield "contiguous", x
    yield "permuted", x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    wide = tt.zeros(*x.shape[:-1], x.shape[-1] + 3)
    wide[..., : x.shape[-1]].copy_(x)
    yield "with gaps", wide[..., : x.shape[-1]]


@given(some.lists(some.integers(1, 5), min_size=1, max_size=4), some.data())
def test_a_dim_counter_visits_every_index_once(shape, data) -> None:
    numel = int(np.prod(shape))
    begin = data.draw(some.integers(0, numel))
    end = data.draw(some.integers(begin, numel))
    counter, visited = DimCounter(shape, begin, end), []
    while not counter.is_done():
        step, at = counter.max_2d_step(), counter.offset
        row = shape[0]
        assert counter.values == list(np.unravel_index(at, shape, order="F"))
        assert step[1] == 1 or step[0] == row
        visited += range(at, at + step[0] * step[1])
        counter.increment(step)
    assert visited == list(range(begin, end))


def test_a_dim_counter_refuses_a_range_outside() -> None:
    with pytest.raises(IndexError, match="not inside 6 elements"):
        DimCounter((2, 3), 0, 7)


def test_for_each_hands_out_one_or_two_dimensions(threads) -> None:
    x = tt.arange(24, dtype=tt.float32).reshape(2, 3, 4)
    for name, a in layouts(x):
        for b in (tt.ones(3, 1), tt.ones(4), tt.ones(2, 3, 4)):
            ranks = set()

            def add(out, left, right, ranks=ranks) -> None:
                ranks.add(out.ndim)
                np.add(left, right, out=out)

            iterator = TensorIterator.binary_op(None, a, b)
            iterator.for_each(add, grain_size=5)
            assert ranks <= {1, 2}, name
            assert np.array_equal(numpy_of(iterator.output()), numpy_of(x) + 1), name
            assert iterator.output().stride() == iterator.output_specs()[0].strides


def test_any_range_can_be_visited_on_its_own() -> None:
    x = tt.arange(60, dtype=tt.float32).reshape(3, 4, 5)
    for begin, end in ((0, 60), (0, 7), (3, 51), (59, 60), (20, 20)):
        out = tt.zeros(3, 4, 5)
        iterator = TensorIterator.binary_op(out, x, tt.ones(4, 1))
        iterator.serial_for_each(lambda o, a, b: np.add(a, b, out=o), begin, end)
        flat = numpy_of(out).reshape(-1)
        expected = np.zeros(60)
        expected[begin:end] = np.arange(60)[begin:end] + 1
        assert np.array_equal(flat, expected)


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (3, 0, 2)], ids=str)
def test_scalars_and_empty_tensors(sizes) -> None:
    a = tt.ones(sizes)
    iterator = TensorIterator.binary_op(None, a, 2.0)
    cpu_kernel(iterator, lambda x, y: x + y)
    assert iterator.output().shape == a.shape
    assert iterator.output().flatten().tolist() == [3.0] * a.numel()
    again = TensorIterator.unary_op(None, a)
    again.for_each(lambda out, x: np.negative(x, out=out))
    assert again.output().flatten().tolist() == [-1.0] * a.numel()


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64, tt.int32, tt.bool], ids=repr)
def test_inputs_are_cast_and_results_are_cast_back(dtype, threads) -> None:
    a = tt.tensor([[1, 0, 1], [1, 1, 0]], dtype=dtype)
    b = tt.tensor([1.5, 2.5, 3.0])
    seen = []

    def fn(x, y):
        seen.append((x.dtype, y.dtype))
        return x * y

    iterator = TensorIterator.binary_op(None, a, b)
    cpu_kernel(iterator, fn, grain_size=1)
    common = iterator.common_dtype
    assert set(seen) == {(common.np, common.np)}
    assert iterator.output().dtype is common
    assert iterator.output().tolist() == [[1.5, 0, 3.0], [1.5, 2.5, 0]]


def test_an_output_of_another_dtype_is_cast_to() -> None:
    out = tt.zeros(3, dtype=tt.float64)
    iterator = TensorIterator.binary_op(out, tt.tensor([1, 2, 3]), tt.tensor([1, 1, 1]))
    iterator.for_each(lambda o, a, b: np.add(a, b, out=o))
    assert out.tolist() == [2.0, 3.0, 4.0]
    cpu_kernel(TensorIterator.comparison_op(out, tt.tensor([1, 5, 3]), 2), np.less)
    assert out.tolist() == [1.0, 0.0, 0.0]


def test_a_given_output_is_written_in_its_own_layout() -> None:
    base = tt.zeros(3, 4)
    out = base[:, ::2]
    cpu_kernel(TensorIterator.binary_op(out, tt.ones(3, 2), tt.tensor([1.0, 2.0])), np.add)
    assert base.tolist() == [[2.0, 0.0, 3.0, 0.0]] * 3


def test_an_output_of_another_shape_is_resized_in_place() -> None:
    out = tt.zeros(1)
    iterator = TensorIterator.unary_op(out, tt.ones(2, 3).t())
    cpu_kernel(iterator, np.negative)
    assert iterator.output() is out
    assert (out.shape, out.stride()) == ((3, 2), (1, 3))
    assert out.tolist() == [[-1.0, -1.0]] * 3


def test_in_place_over_the_same_tensor(threads) -> None:
    x = tt.arange(1000, dtype=tt.float32)
    cpu_kernel(TensorIterator.binary_op(x, x, x), np.add, grain_size=10)
    assert np.array_equal(numpy_of(x), 2.0 * np.arange(1000))


def test_inputs_cannot_be_written() -> None:
    def write(a):
        a += 1
        return a

    with pytest.raises(ValueError, match="read-only"):
        cpu_kernel(TensorIterator.unary_op(None, tt.ones(3)), write)


def test_several_outputs() -> None:
    config = TensorIteratorConfig().add_output(None).add_output(None).add_input(tt.tensor([7.0, 8.0]))
    iterator = config.build()
    cpu_kernel(iterator, lambda a: np.divmod(a, 3.0))
    assert [iterator.output(i).tolist() for i in range(2)] == [[2.0, 2.0], [1.0, 2.0]]
    with pytest.raises(RuntimeError, match="returned 1 results for 2 outputs"):
        cpu_kernel(iterator, np.negative)


def test_floating_point_errors_are_silent(threads) -> None:
    with np.errstate(all="raise"):
        iterator = TensorIterator.binary_float_op(None, tt.ones(100), tt.zeros(100))
        cpu_kernel(iterator, np.divide, grain_size=5)
    assert set(iterator.output().tolist()) == {float("inf")}


def test_loops_refuse_what_has_no_host_memory() -> None:
    x = tt.ones(3)
    with pytest.raises(RuntimeError, match="only a spec"):
        cpu_kernel(TensorIterator.unary_op(None, x._spec), np.negative)
    with pytest.raises(RuntimeError, match="only a spec"):
        cpu_kernel(TensorIterator.binary_op(None, x, float), np.add)
    with pytest.raises(RuntimeError, match="an operand is on meta"):
        cpu_kernel(TensorIterator.unary_op(None, tt.ones(3, device="meta")), np.negative)
    with pytest.raises(RuntimeError, match="use parallel_reduce"):
        cpu_kernel(TensorIterator.reduce_op(tt.zeros(1), x), np.negative)


def total(out, a) -> None:
    axes = tuple(i for i in range(a.ndim) if out.shape[i] == 1 and a.shape[i] != 1)
    out += a.sum(axis=axes, keepdims=True)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (64, 40, 33)], ids=str)
def test_reductions_meet_every_input(dims, sizes, threads) -> None:
    values = np.arange(int(np.prod(sizes))).reshape(sizes) % 7
    for name, a in layouts(tt.tensor(values.tolist(), dtype=tt.float32)):
        result = tt.zeros([n for i, n in enumerate(sizes) if i not in dims])
        TensorIterator.reduce_op(review_reduce_result(result, 3, dims, keepdim=False), a).parallel_reduce(
            total
        )
        assert np.array_equal(numpy_of(result), values.sum(axis=dims)), name


def test_a_single_result_does_not_depend_on_the_number_of_threads() -> None:
    x = tt.randn(200_000)
    sums, before = set(), get_num_threads()
    try:
        for count in (1, 2, 5):
            set_num_threads(count)
            out = tt.zeros(1)
            TensorIterator.reduce_op(review_reduce_result(out, 1, [0], keepdim=True), x).parallel_reduce(
                total
            )
            sums.add(out.item())
    finally:
        set_num_threads(before)
    assert len(sums) == 1


def test_parallel_reduce_takes_one_input_and_one_output() -> None:
    with pytest.raises(RuntimeError, match="only supports one input and one output"):
        TensorIterator.binary_op(None, tt.ones(2), tt.ones(2)).parallel_reduce(total)


def test_parts_write_their_share() -> None:
    x = tt.arange(64, dtype=tt.float32).reshape(4, 16)
    out = tt.zeros(4, 16)
    parts = list(TensorIterator.binary_op(out, x, tt.ones(4, 1)).with_32bit_indexing(limit=100))
    assert len(parts) > 2
    for part in parts:
        part.for_each(lambda o, a, b: np.add(a, b, out=o))
    assert np.array_equal(numpy_of(out), numpy_of(x) + 1)
