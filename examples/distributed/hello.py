"""Add the ranks of a program's processes, and print the sum on the first rank.

    python -m triten.distributed.run --nproc-per-node=4 examples/distributed/hello.py

Any other launcher works as well: `mpiexec -n 4 python hello.py`, `srun python hello.py`.
"""

import triten as tt
from triten import distributed as dist
from triten.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    ranks = tt.tensor([float(rank), 1.0])
    dist.all_reduce(ranks)
    if rank == 0:
        print(f"{size} processes, whose ranks are {ranks[0].item():g} in all")
    assert ranks.tolist() == [size * (size - 1) / 2, size]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
