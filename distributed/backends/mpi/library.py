"""mpi4py, imported and MPI started once in a process."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

from ...cluster_environment import cluster_environment
from ...errors import DistBackendError
from ...stores.store import Store
from .process_management import process_management

__all__ = ["do_not_finalize", "is_installed", "launched", "remove_names_of_shared_memory", "start"]


def is_installed() -> bool:
    """Return True if mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def launched() -> tuple[int, int] | None:
    """Return this process's rank and the number of processes, if an MPI launcher started it."""
    environment = cluster_environment()
    return (
        (environment.rank, environment.world_size)
        if environment is not None and environment.starts_mpi
        else None
    )


def start(store: Store | None, rank: int, size: int) -> Any:
    """MPI, started in all processes; the module `mpi4py.MPI`.

    Args:
        store: by which the processes find each other; None where a launcher has started them.
        rank: this process's number; -1 for what the launcher says.
        size: the number of processes; -1 for what the launcher says.

    Raises:
        ModuleNotFoundError: mpi4py is not installed.
        DistBackendError: MPI runs already, with other processes.
    """
    if not is_installed():
        raise ModuleNotFoundError(
            "the MPI backend needs mpi4py and an MPI library: pip install 'triten[mpi]'", name="mpi4py"
        )
    if "mpi4py.MPI" not in sys.modules:
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False  # at exit, MPI would wait for processes that are gone
    from mpi4py import MPI

    if MPI.Is_finalized():
        raise DistBackendError(
            "init_process_group: MPI was finalized in this process and cannot be initialized again; start a new "
            "process"
        )
    if not MPI.Is_initialized():
        if store is not None and size > 1 and launched() is None:
            with process_management(store, rank, size):
                _initialize(MPI)
        else:
            MPI.Init_thread()
            MPI.COMM_WORLD.Barrier()
            remove_names_of_shared_memory()
            atexit.register(_end_well, os.getpid())
    world = MPI.COMM_WORLD
    if size not in (-1, world.size) or rank not in (-1, world.rank):
        raise DistBackendError(
            f"init_process_group: expected rank {rank} of {size}, but MPI started rank {world.rank} of {world.size}. "
            f"{_why_not(MPI)}"
        )
    return MPI


def _initialize(MPI: Any) -> None:
    """Start MPI while other threads run on: mpi4py's own function would not let them."""
    library = ctypes.CDLL(MPI.__file__)  # its symbols are those of the library that it has loaded
    thread_level = ctypes.c_int()
    if library.MPI_Init_thread(None, None, int(MPI.THREAD_MULTIPLE), ctypes.byref(thread_level)):
        raise DistBackendError("init_process_group: MPI_Init_thread failed")
    for communicator in (MPI.COMM_WORLD, MPI.COMM_SELF):
        communicator.Set_errhandler(MPI.ERRORS_RETURN)  # as mpi4py sets it where it starts MPI
    MPI.COMM_WORLD.Barrier()
    remove_names_of_shared_memory()


def remove_names_of_shared_memory() -> None:
    """Have the memory that MPICH shares between processes, all of which have it now, end with them.

    MPICH itself takes the name away when it is ended, which waits for all processes, also for those that are gone.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return  # elsewhere than on Linux, it is kept in other ways
    for name in set(re.findall(r"/dev/shm/mpich_shm_\w+", maps)):
        with contextlib.suppress(OSError):  # another process was faster
            os.unlink(name)


def do_not_finalize() -> None:
    """Have the process end without MPI_Finalize, which crashes if a thread is still inside of MPI."""
    atexit.unregister(_end_well)


def _end_well(process: int) -> None:
    """End MPI in a process that ends without an error; otherwise launchers treat the process as failed.

    A forked child, which does not own MPI, leaves it unchanged.
    """
    if os.getpid() != process:
        return
    MPI: Any = sys.modules.get("mpi4py.MPI")
    has_failed = getattr(sys, "last_value", None) is not None
    if MPI is not None and not has_failed and MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


def _why_not(MPI: Any) -> str:
    name = MPI.Get_library_version().split("\n")[0]
    if "MPICH" not in name.upper():
        return f"{name} is to be started by its mpiexec; MPICH (pip install mpich) starts by itself."
    return "MPI is started once in a process, by the first init_process_group or by an import of mpi4py.MPI before."
