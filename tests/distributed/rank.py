"""Process of `ranks`: runs the requested test bodies and reports their results."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from multiprocessing.connection import Client

from triten import cuda
from triten import distributed as dist


def main() -> None:
    dist.init_process_group("cpu:mpi,cuda:nccl", init_method="mpi://")
    rank, size = dist.get_rank(), dist.get_world_size()
    if os.environ.get("TRITEN_CUDA") == "interpret":  # a GPU for each, whatever test is the first to use one
        cuda.set_device(rank % cuda.device_count())
    with Client(sys.argv[1], authkey=bytes.fromhex(os.environ.pop("RANKS_AUTHKEY"))) as parent:
        parent.send(rank)
        while True:
            try:
                module, name, args = parent.recv()
            except EOFError:
                break
            try:
                getattr(import_module(module), name).in_ranks(rank, size, *args)
            except BaseException:  # the test is told, whatever it is
                parent.send(traceback.format_exc())
            else:
                parent.send(None)


if __name__ == "__main__":
    main()
