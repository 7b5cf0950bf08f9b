"""The functions that `plain_numpy` writes anew give what NumPy's give."""

import numpy
import pytest

from triten.cpu_fallback.plain_numpy import KEPT_PLACES, np


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_axes_are_moved_and_added_as_by_numpy(ndim):
    array = numpy.arange(24).reshape((1, 2, 3, 4)[-ndim:]) if ndim == 4 else numpy.ones((2, 3, 4)[:ndim])
    for source in range(-ndim, ndim):
        for destination in range(-ndim, ndim):
            want = numpy.moveaxis(array, source, destination)
            numpy.testing.assert_array_equal(np.moveaxis(array, source, destination), want)
    for axis in range(-ndim - 1, ndim + 1):
        assert np.expand_dims(array, axis).shape == numpy.expand_dims(array, axis).shape
    assert np.expand_dims(array, 0).base is not None


def test_a_number_gets_a_dimension():
    assert (
        np.expand_dims(numpy.array(3.0), 0).tolist() == np.expand_dims(numpy.array(3.0), -1).tolist() == [3.0]
    )


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (KEPT_PLACES + 1, 3)])
def test_elements_along_an_axis_are_numpys(shape):
    random = numpy.random.default_rng(0)
    array = random.random(shape)
    for axis in range(-len(shape), len(shape)):
        for count in (1, 2):
            sizes = list(shape)
            sizes[axis] = count
            indices = random.integers(-shape[axis], shape[axis], sizes)
            want = numpy.take_along_axis(array, indices, axis)
            numpy.testing.assert_array_equal(np.take_along_axis(array, indices, axis), want)
            got, put = array.copy(), array.copy()
            np.put_along_axis(got, indices, want + 1, axis)
            numpy.put_along_axis(put, indices, want + 1, axis)
            numpy.testing.assert_array_equal(got, put)
    with pytest.raises(IndexError):
        np.take_along_axis(array, numpy.full((1,) * len(shape), max(shape)), 0)
