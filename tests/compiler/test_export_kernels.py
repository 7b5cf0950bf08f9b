"""Compiled kernels in program files: kept when a program is saved again, checked when it is loaded."""

import io
import json
import zipfile

import pytest

import triten as tt
from triten import nn
from triten.compiler.export.kernels import FOLDER, find_target, packed_kernels
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.kernel_archive import KernelArchive

KEYS = {"0" * 64: (90, "one"), "1" * 64: (90, "two"), "2" * 64: (80, "one")}


@pytest.fixture
def kernels() -> KernelArchive:
    binaries = {
        key: KernelBinary(name, capability, name.encode(), {}, ("*fp32", "i32"), 4, 1, 0, 0, 1)
        for key, (capability, name) in KEYS.items()
    }
    return KernelArchive("'before.pt2'", binaries, 12080)


def saved(kernels: KernelArchive) -> io.BytesIO:
    program = tt.export.export(nn.ReLU(), (tt.ones(2),))
    program.kernels = [kernels]
    file = io.BytesIO()
    tt.export.save(program, file)
    return file


def test_kernels_that_a_program_came_with_are_saved_again(kernels: KernelArchive) -> None:
    loaded = tt.export.load(saved(kernels))
    assert sorted(archive.capabilities for archive in loaded.kernels) == [(80,), (90,)]
    assert {key: b for archive in loaded.kernels for key, b in archive.kernels.items()} == kernels.kernels
    assert all(archive.cuda == 12080 and archive.name == "the file" for archive in loaded.kernels)
    moved = tt.export.passes.move_to_device_pass(loaded, "meta")
    assert moved.kernels is loaded.kernels


def test_damaged_kernels_are_refused(kernels: KernelArchive) -> None:
    files = packed_kernels([kernels])
    key = next(iter(KEYS))
    damaged = io.BytesIO()
    with zipfile.ZipFile(saved(kernels)) as before, zipfile.ZipFile(damaged, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            after.writestr(name, data[:-1] + b"?" if name.endswith(f"{key}.kernel") else data)
    with pytest.raises(RuntimeError, match="is damaged: ValueError: kernel 'one' for sm_90"):
        tt.export.load(damaged)
    assert json.loads(files[f"{FOLDER}sm_80/kernels.json"])["kernels"] == [{"key": "2" * 64, "name": "one"}]


def test_targets_by_name() -> None:
    assert find_target("sm_90") is KNOWN[90] and find_target(KNOWN[80]) is KNOWN[80]
    with pytest.raises(ValueError, match=r"targets must be among sm_80, .*, got 'sm_12'"):
        find_target("sm_12")


def test_a_program_that_came_with_kernels_gives_no_gradients(kernels: KernelArchive) -> None:
    x = tt.ones(2, requires_grad=True)
    assert tt.export.export(nn.ReLU(), (tt.ones(2),)).module()(x).requires_grad
    with pytest.raises(RuntimeError, match="argument input requires grad"):
        tt.export.load(saved(kernels)).module()(x)
