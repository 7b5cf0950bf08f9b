"""Processes of `tt.multiprocessing.spawn` find each other by the environment."""

import os
from pathlib import Path

import pytest

import triten as tt
from triten.distributed.stores.tcp_server import TCPStoreServer
from triten.tests.distributed.ranks import needs_mpi
from triten.tests.distributed.spawned import add_ranks


@needs_mpi
def test_processes_of_spawn_add_their_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TORCHELASTIC_", "PMI_", "OMPI_", "PMIX_"))]:
        monkeypatch.delenv(name)
    free = TCPStoreServer("127.0.0.1", 0)
    free.close()
    tt.multiprocessing.spawn(add_ranks, (2, free.port, str(tmp_path)), nprocs=2)
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["3.0", "3.0"]
