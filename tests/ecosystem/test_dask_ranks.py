"""Ranks that Dask's scheduler places: the example's way, without what the ranks say to each other."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("distributed")

from dask.distributed import Client, LocalCluster

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "distributed" / "dask_cluster.py"
PLACE = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("dask_cluster", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "dask_cluster", module)  # where its functions are unpickled from
    spec.loader.exec_module(module)
    return module


def test_each_task_is_a_rank(example: ModuleType) -> None:
    names = PLACE

    def place() -> list[str]:
        return [os.environ[name] for name in names]

    def fails() -> None:
        raise SystemExit(3)

    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        first, second = example.run_on_dask(client, place, 2)
        assert [first[:2], second[:2]] == [["0", "2"], ["1", "2"]]
        assert first[2:] == second[2:] and int(first[3]) > 0
        with pytest.raises(RuntimeError, match=r"rank . ended with exit code 3"):
            example.run_on_dask(client, fails, 2)
        with pytest.raises(ValueError, match="3 ranks need as many workers, but the cluster has 2"):
            example.run_on_dask(client, place, 3)
