"""Dask arrays of tensors: what the table of calls does not show."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import triten as tt
from triten.tests.shared.processes import run_python

da = pytest.importorskip("dask.array")


def test_an_array_knows_what_its_chunks_are(device):
    x = da.from_array(tt.ones(4, 6, device=device), chunks=2)
    assert isinstance(x._meta, tt.Tensor) and x.dtype == np.dtype("f4") and x.nbytes == 96
    assert x.compute().device.type == device


def test_tensors_of_other_contents_have_other_names():
    one, same, other = (da.from_array(tensor, chunks=2) for tensor in (tt.ones(4), tt.ones(4), tt.zeros(4)))
    assert one.name == same.name != other.name


def test_a_permutation_of_a_whole_chunk_is_no_mask(device):
    x = da.from_array(tt.arange(8.0, device=device), chunks=4)
    assert x[[3, 1, 0, 2, 4, 4, 7, 5]].compute().tolist() == [3, 1, 0, 2, 4, 4, 7, 5]


def test_backends_are_changed_both_ways():
    x = da.from_array(np.arange(6.0), chunks=3).to_backend("triten")
    assert isinstance(x._meta, tt.Tensor) and tt.equal(x.compute(), tt.arange(6.0, dtype=tt.float64))
    back = x.to_backend("numpy").compute()
    assert isinstance(back, np.ndarray) and back.tolist() == [0, 1, 2, 3, 4, 5]


def test_arrays_are_made_of_tensors_where_that_is_the_backend():
    import dask

    with dask.config.set({"array.backend": "triten"}):
        made = [
            da.ones((4, 6), chunks=2),
            da.zeros(3),
            da.full((2, 2), 7, dtype="int64"),
            da.arange(5, chunks=2),
        ]
        computed = [each.sum().compute() for each in made]
    assert all(isinstance(each, tt.Tensor) for each in computed)
    assert [each.item() for each in computed] == [24, 0, 28, 10]


def test_means_count_what_there_is(device):
    x = tt.randn(5, 7, device=device)
    x[0, :3] = float("nan")
    chunked = da.from_array(x, chunks=(2, 3))
    assert tt.allclose(da.nanmean(chunked, axis=1).compute(), x.nanmean(1))
    assert tt.allclose(chunked[1:].mean(axis=0, keepdims=True).compute(), x[1:].mean(0, keepdim=True))
    assert tt.allclose(chunked[1:].var(axis=0, ddof=1).compute(), x[1:].var(0))


def test_two_processes_of_a_cluster_compute_with_tensors():
    pytest.importorskip("distributed")
    done = run_python(Path(__file__).with_name("cluster.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True", "True", "['triten', 'triten']"]


def test_bytes_of_a_tensor_are_no_part_of_its_pickle():
    buffers = []
    x = tt.zeros(1 << 16)
    pickled = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(pickled) < 2000 and sum(each.raw().nbytes for each in buffers) == x.nbytes
    assert tt.equal(pickle.loads(pickled, buffers=buffers), x)
