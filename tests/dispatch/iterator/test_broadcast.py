"""Broadcasting of shapes and strides, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from triten.dispatch.iterator.broadcast import broadcast_shapes, expand_geometry, expand_strides, infer_size


@given(mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_dims=5))
def test_broadcast_shapes_agree_with_numpy(shapes) -> None:
    assert broadcast_shapes(*shapes.input_shapes) == shapes.result_shape


@pytest.mark.parametrize(
    ("a", "b", "sizes", "dim"),
    [
        ((2, 3), (2, 4), (3, 4), 1),
        ((3,), (4,), (3, 4), 0),
        ((5, 2, 3), (4, 3), (2, 4), 1),
        ((2, 3), (4, 5), (3, 5), 1),
        ((0,), (2,), (0, 2), 0),
    ],
)
def test_a_mismatch_names_the_last_dimension_that_differs(a, b, sizes, dim) -> None:
    message = (
        rf"The size of tensor a \({sizes[0]}\) must match the size of tensor b \({sizes[1]}\) at "
        rf"non-singleton dimension {dim}"
    )
    with pytest.raises(RuntimeError, match=message):
        infer_size(a, b)


def test_one_gives_way_to_zero() -> None:
    assert infer_size((1, 3), (0, 1)) == (0, 3)


def test_an_int_is_a_shape_of_one_dimension() -> None:
    assert broadcast_shapes(3, (2, 1)) == (2, 3)
    assert broadcast_shapes() == ()


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="negative length"):
        broadcast_shapes((2, -1))


@given(mutually_broadcastable_shapes(num_shapes=1, base_shape=(4, 3, 2), min_side=1, max_dims=3, max_side=4))
def test_expanded_strides_address_what_numpy_addresses(shapes) -> None:
    (sizes,), target = shapes.input_shapes, shapes.result_shape
    array = np.arange(int(np.prod(sizes))).reshape(sizes)
    strides = [s // array.itemsize for s in array.strides]
    out = expand_strides(sizes, strides, target)
    view = np.lib.stride_tricks.as_strided(array, target, [s * array.itemsize for s in out])
    assert np.array_equal(view, np.broadcast_to(array, target))


def test_minus_one_keeps_a_size() -> None:
    assert expand_geometry((3, 1), (1, 7), (2, -1, 4)) == ((2, 3, 4), (0, 1, 0))
    assert expand_geometry((3, 1), (1, 7), (-1, 4)) == ((3, 4), (1, 0))


@pytest.mark.parametrize(
    ("sizes", "target", "message"),
    [
        (
            (3,),
            (4,),
            r"expanded size of the tensor \(4\) must match the existing size \(3\) at non-singleton dimension 0",
        ),
        ((2, 3), (3,), r"number of sizes provided \(1\) must be greater or equal"),
        ((3,), (-1, 3), r"\(-1\) isn't allowed in a leading, non-existing dimension 0"),
        ((3, 4), (-1, 8, 5), r"\(5\) must match the existing size \(4\) at non-singleton dimension 2"),
    ],
)
def test_impossible_expansions_are_refused(sizes, target, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        expand_geometry(sizes, (1,) * len(sizes), target)


@given(some.lists(some.integers(1, 4), max_size=4))
def test_expanding_to_the_same_sizes_changes_nothing(sizes) -> None:
    strides = tuple(range(1, len(sizes) + 1))
    assert expand_geometry(sizes, strides, sizes) == (tuple(sizes), strides)
