"""Kernels that are declared and never compiled, and a folder of records of each test's own."""

import importlib.util
import itertools
from pathlib import Path

import pytest

from triten.runtime.cuda.driver import driver
from triten.runtime.device import device as Device
from triten.runtime.disk_cache import DiskCache
from triten.triton_kernels import budget
from triten.triton_kernels.tuning import choice
from triten.triton_kernels.tuning.entry import Entry, source_of
from triten.triton_kernels.tuning.records import Records, device_name

SOURCE = """
from triten.runtime.cuda.triton.lazy_triton import tl, triton
from triten.triton_kernels.budget import Configuration, declare

@triton.jit
def made_up(x, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))

declare(
    made_up,
    why="none",
    dtypes={
        ("bf16",): (Configuration((256,), 4), Configuration((512,), 8), Configuration((64,), 4, blocks={80: 1})),
        ("fp32",): (Configuration((128,), 4),),
    },
    operations="0",
    traffic="0",
)
"""
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """Return the records of the process, in an empty folder."""
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITEN_TUNING_STORE", raising=False)
    choice.forget()
    yield Records(DiskCache(tmp_path / "cache"))
    choice.forget()


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Return a declared kernel of a module that no other test has."""
    path = Path(tmp_path) / f"made_up_{next(_numbers)}.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(budget, "DECLARATIONS", budget.DECLARATIONS)
    spec.loader.exec_module(module)
    yield module.made_up
    del budget.DECLARATIONS[f"{path.stem}:made_up"]


@pytest.fixture
def here():
    return Device("cuda", 0)


@pytest.fixture
def device():
    """Return the device's name in the records."""
    return device_name(driver().properties(0))


@pytest.fixture
def entry_for(made_up):
    """Return entry_for(tile, ...), which makes a measurement for bf16 at 4096."""

    def make(tile=(512,), warps=8, stages=3, source=None, dtype="bf16", shape="4096:16"):
        name = f"{made_up.fn.__module__}:made_up"
        return Entry(
            name, source or source_of(name), dtype, shape, tile, warps, stages, {"512": 1.5}, "some GPU"
        )

    return make
