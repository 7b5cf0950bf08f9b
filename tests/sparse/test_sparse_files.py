"""Sparse tensors in files, pickles and copies, and as SciPy's arrays."""

import copy
import io
import pickle
from pickle import UnpicklingError

import numpy as np
import pytest
import scipy.sparse

import triten as tt

from .conftest import Draw


def written(value: object) -> io.BytesIO:
    file = io.BytesIO()
    tt.save(value, file)
    file.seek(0)
    return file


def test_a_file_gives_it_back(draw: Draw) -> None:
    x = draw((3, 4, 2), dense_dim=1)
    found = tt.load(written({"x": x, "y": x.coalesce()}))
    assert found["x"].layout is tt.sparse_coo
    assert found["x"].device == x.device
    assert found["x"]._indices().equal(x._indices())
    assert not found["x"].is_coalesced()
    assert found["y"].is_coalesced()
    assert found["y"].to_dense().equal(x.to_dense())


def test_copies_and_pickles(draw: Draw) -> None:
    x = draw((3, 4)).requires_grad_()
    for found in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert found.requires_grad
        assert found.detach().to_dense().equal(x.detach().to_dense())
        assert found._values().data_ptr() != x._values().data_ptr()


def test_a_file_whose_indices_lie_is_refused() -> None:
    x = tt._sparse_coo_tensor_unsafe(tt.tensor([[0, 9]]), tt.ones(2), (2,))
    with pytest.raises((RuntimeError, UnpicklingError), match="found index 9"):
        tt.load(written(x))
    y = tt._sparse_coo_tensor_unsafe(tt.tensor([[1, 0]]), tt.ones(2), (2,), is_coalesced=True)
    with pytest.raises((RuntimeError, UnpicklingError), match="uncoalesced"):
        tt.load(written(y))


def test_modules_hold_sparse_buffers() -> None:
    class Net(tt.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("graph", tt.eye(3).to_sparse())

    net = Net()
    net.load_state_dict(tt.load(written(net.state_dict())))
    assert net.graph.to_dense().equal(tt.eye(3))


def test_scipy_shares_values() -> None:
    array = scipy.sparse.coo_array((np.array([1.0, 2.0]), ([0, 1], [1, 0])), shape=(2, 3))
    x = tt.sparse.from_scipy(array)
    assert x.shape == (2, 3)
    array.data[0] = 5
    assert x.to_dense()[0, 1].item() == 5.0
    back = tt.sparse.to_scipy(x)
    assert isinstance(back, scipy.sparse.coo_array)
    assert np.shares_memory(back.data, array.data)
    with pytest.raises(TypeError, match="from_scipy"):
        tt.sparse.from_scipy(np.eye(2))
    with pytest.raises(RuntimeError, match="requires grad"):
        tt.sparse.to_scipy(x.requires_grad_())
    with pytest.raises(TypeError, match="dense dimensions"):
        tt.sparse.to_scipy(tt.ones(2, 2).to_sparse(1))
