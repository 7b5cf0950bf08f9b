"""Tensors in a cluster of two processes of this machine; `test_dask` runs it."""

from __future__ import annotations

import sys

import dask.array as da

import triten as tt
from distributed import Client, LocalCluster


def package() -> str:
    """Return the name of the package that a worker imported."""
    return sys.modules["triten"].__name__


def main() -> None:
    """Compute with arrays, functions and modules in two workers."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        x = tt.arange(24.0).view(4, 6)
        chunked = client.persist(da.from_array(x, chunks=3))
        print(tt.equal((chunked @ chunked.T).compute(), x @ x.T))
        print(tt.equal(client.submit(tt.relu, x).result(), x))
        print(list(client.run(package).values()))


if __name__ == "__main__":
    main()
