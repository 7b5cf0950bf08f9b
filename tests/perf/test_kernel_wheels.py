"""Wheels of compiled kernels: built for sample calls, found by launches, ignored where another Triton is installed."""

import base64
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from triten.runtime.cuda.triton import packaged_kernels
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.kernel_entry import pack
from triten.runtime.cuda.triton.kernel_key import KernelRequest, request_key, triton_identity
from triten.runtime.cuda.triton.packaged_kernels import find_packaged, installed_packages
from triten.triton_kernels.elementwise.pointwise_functions import add

if sys.platform != "linux" and importlib.util.find_spec("triton") is None:
    pytest.skip("triton has no wheel for this platform", allow_module_level=True)

SAMPLES = Path(__file__).with_name("wheel_samples.py")
PROGRAM = Path(__file__).with_name("packaged_kernels.py")


def run(folder, *arguments, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRIT")}
    kept |= {"TRITEN_CACHE_DIR": str(folder / "ours"), "TRITON_CACHE_DIR": str(folder / "theirs")}
    return subprocess.run(
        [sys.executable, "-P", *map(str, arguments)],
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = ["-m", "triten.perf", "kernel-wheels", "--target", "90", "--workers", "1"]
    done = run(folder, *command, "--samples", SAMPLES, "--output", folder / "dist")
    assert done.returncode == 0, done.stderr
    assert ": 1 kernels, " in done.stdout, "float64 is left out"
    (path,) = (folder / "dist").iterdir()
    return path


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """Return a folder into which the wheel is unpacked, as an installer does."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder


def test_the_wheel_records_its_files(wheel, site):
    assert wheel.name.startswith("triten_kernels_sm90-") and wheel.name.endswith("-py3-none-any.whl")
    (record,) = site.glob("*.dist-info/RECORD")
    rows = [line.split(",") for line in record.read_text().splitlines()]
    assert {name for name, *_ in rows} == {str(p.relative_to(site)) for p in site.rglob("*") if p.is_file()}
    for name, digest, size in rows[:-1]:
        data = (site / name).read_bytes()
        expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert (digest, size) == (f"sha256={expected}", str(len(data)))
    index = json.loads((site / "triten_kernels_sm90" / "index.json").read_text())
    assert index["target"] == "sm_90" and tuple(index["triton"]) == triton_identity()


def test_a_launch_finds_an_installed_kernel_without_triton(site, tmp_path):
    done = run(tmp_path, PROGRAM, 90, "float32", PYTHONPATH=str(site))
    assert done.stdout == "dense True\n", done.stderr
    assert not (tmp_path / "ours" / "cubins").exists(), "it is not copied into the cache"


def test_a_kernel_of_another_dtype_is_not_found(site, tmp_path):
    done = run(tmp_path, PROGRAM, 90, "float16", PYTHONPATH=str(site))
    assert done.returncode and "kernel 'dense' for sm_90 is not in the store" in done.stderr


BINARY = KernelBinary("add", 90, b"code", {}, ("fp32", "fp32"), 4, 1, 0, 0, 1)
REQUEST = KernelRequest(add, {"a": "fp32", "b": "fp32"}, {}, frozenset(), 90, {"num_warps": 4})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that installs a package of one kernel, with an index of one's own."""
    for name in os.environ:
        if name.startswith(("TRITON_", "LLVM_", "MLIR_")):
            monkeypatch.delenv(name)

    def install(data=None, **changes):
        key = request_key(REQUEST)
        entry = pack(key, BINARY) if data is None else data
        folder = tmp_path / "some_kernels"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("raise ImportError('it is data alone')")
        (folder / "kernels.bin").write_bytes(b"????" + entry)
        index = {"format": 1, "cuda": 12080, "triton": triton_identity(), "kernels": {key: (4, len(entry))}}
        (folder / "index.json").write_text(json.dumps(index | changes))
        info = tmp_path / "some_kernels-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kernels\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[triten.kernels]\nsm_90 = some_kernels\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        installed_packages.cache_clear()

    yield install
    installed_packages.cache_clear()


def test_an_installed_kernel_is_read_by_its_request(package):
    package()
    assert find_packaged(REQUEST, 12080) == BINARY == find_packaged(REQUEST, 13000)
    assert find_packaged(REQUEST._replace(divisible=frozenset({"a"})), 12080) is None
    assert find_packaged(REQUEST._replace(capability=80), 12080) is None


@pytest.mark.parametrize(
    "changes",
    [{"triton": ["3.0", "other"]}, {"cuda": 13000}, {"format": 2}, {"kernels": {}}, {"data": b"damaged"}],
    ids=str,
)
def test_packages_that_do_not_fit_are_not_used(package, changes):
    package(**changes)
    assert find_packaged(REQUEST, 12080) is None


def test_without_triton_a_package_of_any_triton_is_used(package, monkeypatch):
    package(triton=["3.0", "other"])
    monkeypatch.setattr(packaged_kernels, "triton_identity", lambda: None)
    assert find_packaged(REQUEST, 12080) == BINARY


@pytest.mark.parametrize("name", ["TRITON_ALWAYS_COMPILE", "PTXAS_OPTIONS"])
def test_variables_that_change_the_compilation_are_heeded(package, monkeypatch, name):
    package()
    monkeypatch.setenv(name, "1")
    assert find_packaged(REQUEST, 12080) is None
