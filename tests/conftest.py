"""Settings of the whole test run: the CUDA driver, the seed, and the devices that a test is repeated on.

Before each test the seeds of triten's generators and of Python's `random` are set from the run's seed and the
test's name. A test's random numbers therefore do not depend on the order of tests or their distribution over
processes. The fixture `rng` is a NumPy generator with the same seed. The run's seed is 0 by default; ``--seed
N`` changes every test's random numbers. `make test-random` chooses and prints a new seed.

Code that several folders of tests share is in `triten.tests.shared`, whose docstring lists it. Fixtures of
one folder are in that folder's `conftest.py`.
"""

import gc
import importlib.util
import itertools
import os
import random
import sys
import zlib
from collections.abc import Iterator

# Test processes are as many as the cores. With a thread of BLAS for each core in each of them, and in the programs that
# they start, products wait for each other's spinning threads: tenfold the time. OpenBLAS reads this when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# Both are read once, when triten's CUDA driver and Triton itself are first imported. With TRITEN_CUDA set to
# another value the same tests run on a GPU, where the interpreter must be off.
if os.environ.setdefault("TRITEN_CUDA", "interpret") == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("TRITEN_INTERPRET_POISON", "1")  # our kernels rely on no lane that a mask excludes
else:
    os.environ.pop("TRITON_INTERPRET", None)

# Before it is imported, so that its failed assertions show values.
pytest.register_assert_rewrite("triten.tests.shared")

import triten as tt  # noqa: E402
from triten.runtime.cuda.driver import driver  # noqa: E402

pytest_plugins = ("triten.tests.affected.plugin",)

settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.register_profile("fresh", deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, metavar="N", help="seed of the run, 0 by default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: some tests wait for other processes."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("fresh" if config.getoption("seed") else "fixed")
    # `python -m pytest` puts the root first, where the folder `distributed` would hide Dask's package.
    root = str(config.rootpath)
    if sys.path[0] == root and root not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        del sys.path[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()  # it would walk through more and more tests, of which none is garbage
    try:
        return (yield)
    finally:
        gc.enable()
        forget_heap()


_finished = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    if not next(_finished) % 200:
        forget_heap()


def forget_heap() -> None:
    """Exclude live objects from later garbage collections.

    Thousands of tests leave plans and modules that no collection frees but each would traverse, in the end
    for a second. Code that captures a graph or waits for memory triggers a collection.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # Triton's bindings complain of what the interpreter's end does not free


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('seed')}"


def _seed_of(item: pytest.Item) -> int:
    return zlib.crc32(f"{item.config.getoption('seed')} {item.nodeid}".encode())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seed = _seed_of(item)
    random.seed(seed)
    tt.manual_seed(seed)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return the test's seed, which depends on the run's seed and the test's name."""
    return _seed_of(request.node)


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a random generator with the test's own seed."""
    return np.random.default_rng(seed)


@pytest.fixture
def launch_blocking() -> Iterator[None]:
    """Raise errors of kernels' input checks at the call, as under ``CUDA_LAUNCH_BLOCKING=1``."""
    if importlib.util.find_spec("triton") is None:
        yield
        return
    cuda = driver()
    before, cuda.launch_blocking = cuda.launch_blocking, True
    yield
    cuda.launch_blocking = before


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """Return the name of a device; a test that takes it runs once on each."""
    name: str = request.param
    if name == "cuda" and importlib.util.find_spec("triton") is None:
        pytest.skip("triton has no wheel for this platform")
    return name
