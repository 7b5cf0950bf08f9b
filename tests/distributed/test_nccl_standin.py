"""The NCCL backend passes every case on simulated devices, in two rank processes.

The cases are in `nccl_cases.py` and `nccl_pair_cases.py`. Starting the processes takes long, so one start
serves all cases.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import triten as tt
from triten.distributed.backends.nccl import library
from triten.distributed.backends.nccl.communicator import NCCLCommunicator
from triten.tests.distributed.nccl_cases import ALONE, group_of_one
from triten.tests.distributed.nccl_pair_cases import CASES

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton has no wheel for this platform"
)
LIMIT = 120


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Return the result of each case on each of the two ranks."""
    store = tmp_path_factory.mktemp("nccl") / "store"
    command = [sys.executable, "-P", "-m", "triten.tests.distributed.nccl_pair_cases"]
    started = [
        subprocess.Popen([*command, str(rank), "2", str(store)], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [process.communicate(timeout=LIMIT)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    return [json.loads(Path(f"{store}.{rank}").read_text()) for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_ranks(name: str, ranks: list[dict[str, str]]) -> None:
    for rank, found in enumerate(ranks):
        assert found.get(name, "not reached") == "", f"rank {rank}: {found.get(name, 'not reached')}"


@pytest.fixture(scope="module")
def one_rank() -> NCCLCommunicator:
    return group_of_one("alone")


@pytest.mark.parametrize("name", ALONE)
def test_one_rank(name: str, one_rank: NCCLCommunicator) -> None:
    ALONE[name](one_rank)


def test_a_communicator_is_not_made_in_a_capture() -> None:
    fresh = group_of_one("fresh")
    x = tt.ones(2, device="cuda")
    with (
        pytest.raises(
            RuntimeError,
            match="cannot be created during graph capture; call a collective of the group before the capture",
        ),
        tt.cuda.graph(tt.cuda.CUDAGraph()),
    ):
        fresh.broadcast(x, 0)


def test_a_device_has_its_communicator_at_once() -> None:
    eager = group_of_one("eager", tt.device("cuda", 1))
    x = tt.ones(2, device="cuda:1")
    with tt.cuda.graph(tt.cuda.CUDAGraph(), stream=tt.cuda.Stream(1)):
        eager.broadcast(x, 0).wait()
    eager.close()


def test_nccl_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library.is_installed()
    monkeypatch.setattr(library, "is_simulated", lambda: False)
    monkeypatch.setattr(library, "_binding", lambda: type("Missing", (), {"available": False}))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert not library.is_installed()
    with pytest.raises(RuntimeError, match=r"needs CuPy and NCCL: pip install 'triten\[cuda13,nccl13\]'"):
        library.load()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not library.is_installed()
    with pytest.raises(ModuleNotFoundError, match="needs CuPy and NCCL"):
        library.load()
