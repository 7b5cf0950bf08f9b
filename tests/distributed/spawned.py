"""Functions that the processes of `tt.multiprocessing.spawn` run in `test_spawn.py`: an importable module."""

import os
from pathlib import Path

import triten as tt
from triten import distributed as dist


def add_ranks(rank: int, size: int, port: int, folder: str) -> None:
    """Add the ranks of all processes, and write down the sum."""
    place = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    dist.init_process_group("mpi")
    total = tt.tensor([float(rank + 1)])
    dist.all_reduce(total)
    (Path(folder) / str(rank)).write_text(f"{total.item()}")
    dist.destroy_process_group()
