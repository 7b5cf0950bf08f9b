"""The store of compiled kernels: entries, damage, bounds, and concurrent processes, without compilation."""

import dataclasses
import hashlib
import json
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pytest

from triten.runtime.cuda.triton import cubin_store, kernel_entry
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.cubin_store import CubinStore, store
from triten.runtime.cuda.triton.kernel_entry import DIGEST_SIZE, MAGIC, pack, unpack
from triten.runtime.disk_cache import DEFAULT_MAXSIZE, DiskCache, default_maxsize, default_root
from triten.tests.shared.threads import PATIENCE

HOUR = 3600


def binary_of(number: int, size: int = 1000) -> KernelBinary:
    code = random.Random(number).randbytes(size)
    return KernelBinary(
        f"kernel{number}", 90, code, {}, ("*fp32", "i32", "bf16"), 4 + number % 8, 2, number, 256, 128
    )


def entries(kept: CubinStore) -> set[str]:
    return {path.name.removesuffix(".kernel") for path in kept.directory.glob("*.kernel")}


@pytest.fixture
def kept(tmp_path: Path) -> CubinStore:
    return CubinStore(DiskCache(tmp_path / "deep", 1 << 20))


def test_what_was_written_is_read(kept):
    for i in range(3):
        kept.write(f"key{i}", binary_of(i))
    again = CubinStore(kept.cache)
    for i in range(3):
        assert again.read(f"key{i}") == binary_of(i)
    assert type(again.read("key0").cubin) is bytes
    assert type(again.read("key0").parameter_types) is tuple


def test_assembly_is_not_kept(kept):
    kept.write("key", dataclasses.replace(binary_of(1), asm={"ptx": "text"}))
    assert kept.read("key") == binary_of(1)


def test_a_missing_entry_is_none_and_makes_no_folder(kept):
    assert kept.read("key") is None
    assert not kept.directory.exists()


def test_the_folder_is_the_users_own(kept):
    kept.write("key", binary_of(1))
    assert kept.directory.stat().st_mode & 0o077 == 0


def test_a_later_write_takes_the_place_of_an_earlier_one(kept):
    kept.write("key", binary_of(1))
    kept.write("key", binary_of(2))
    assert kept.read("key") == binary_of(2)
    assert len(list(kept.directory.iterdir())) == 1


def test_every_truncation_is_noticed():
    data = pack("key", binary_of(1, 50))
    assert unpack("key", data) == binary_of(1, 50)
    assert [n for n in range(len(data)) if unpack("key", data[:n]) is not None] == []
    assert unpack("key", data + b"\0") is None


def test_every_flipped_bit_is_noticed():
    data = pack("key", binary_of(1, 50))
    for i in range(len(data)):
        damaged = bytearray(data)
        damaged[i] ^= 1 << (i % 8)
        assert unpack("key", bytes(damaged)) is None, i


def test_an_entry_under_anothers_name_is_not_taken(kept):
    kept.write("one", binary_of(1))
    os.rename(kept.directory / "one.kernel", kept.directory / "two.kernel")
    assert kept.read("two") is None


def test_an_entry_with_other_fields_is_not_taken(monkeypatch):

    fields = kernel_entry._HEADER_FIELDS
    monkeypatch.setattr(kernel_entry, "_HEADER_FIELDS", [name for name in fields if name != "num_ctas"])
    data = pack("key", binary_of(1))
    monkeypatch.undo()
    assert unpack("key", data) is None


@pytest.mark.parametrize(
    "header",
    [
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b"{}",
        {"num_warps": "4"},
        {"launch_pdl": 1},
        {"parameter_types": [1]},
        {"parameter_types": None},
        {"tensor_maps": [1]},
        {"name": 1},
    ],
    ids=str,
)
def test_an_entry_whose_header_is_none_is_not_taken(header):
    data = pack("key", binary_of(1))
    start = len(MAGIC) + DIGEST_SIZE
    end = start + 4 + int.from_bytes(data[start : start + 4], "little")
    if isinstance(header, dict):
        header = json.dumps({**json.loads(data[start + 4 : end]), **header}).encode()
    body = len(header).to_bytes(4, "little") + header + data[end:]
    assert unpack("key", MAGIC + hashlib.sha256(body).digest() + body) is None


def test_a_damaged_entry_can_be_written_anew(kept):
    kept.write("key", binary_of(1))
    path = kept.directory / "key.kernel"
    path.write_bytes(path.read_bytes()[:-1])
    assert kept.read("key") is None
    kept.write("key", binary_of(1))
    assert kept.read("key") == binary_of(1)


def test_the_least_recently_used_go_first(tmp_path):
    size = len(pack("key00", binary_of(0)))
    kept = CubinStore(DiskCache(tmp_path, 10 * size + 200))
    now = time.time()
    for i in range(10):
        kept.write(f"key{i:02}", binary_of(i))
        os.utime(kept.directory / f"key{i:02}.kernel", (now - (20 - i) * HOUR,) * 2)
    assert kept.read("key00") is not None, "which makes it the most recently used"
    kept.write("key10", binary_of(10))
    assert entries(kept) == {"key00", *(f"key{i:02}" for i in range(3, 11))}


def test_use_within_the_hour_is_not_noted_again(kept):
    kept.write("key", binary_of(1))
    path = kept.directory / "key.kernel"
    recently = time.time() - HOUR / 2
    os.utime(path, (recently, recently))
    kept.read("key")
    assert path.stat().st_mtime == pytest.approx(recently)


def test_the_bound_counts_what_earlier_processes_left(tmp_path):
    for i in range(5):
        CubinStore(DiskCache(tmp_path, 1 << 20)).write(f"key{i}", binary_of(i))
    kept = CubinStore(DiskCache(tmp_path, 3000))
    kept.write("key9", binary_of(9))
    assert sum(path.stat().st_size for path in kept.directory.iterdir()) <= 3000
    assert "key9" in entries(kept)


def test_the_bound_counts_what_others_write_meanwhile(tmp_path):
    size = len(pack("key00", binary_of(0)))
    one, other = (CubinStore(DiskCache(tmp_path, 40 * size)) for _ in range(2))
    one.write("key00", binary_of(0))
    other.write("other00", binary_of(0))
    for i in range(30):
        one.write(f"key{i:02}", binary_of(i))
        other.write(f"other{i:02}", binary_of(i))
    assert sum(path.stat().st_size for path in one.directory.iterdir()) <= 40 * size * (1 + 2 / 16) + 100


def test_what_is_larger_than_the_bound_is_not_written(tmp_path):
    kept = CubinStore(DiskCache(tmp_path, 999))
    kept.write("key", binary_of(1))
    assert not kept.directory.exists()


def test_orphans_of_killed_writers_are_taken_away(kept):
    kept.directory.mkdir(parents=True)
    old, young = (kept.directory / f"key.kernel.{pid}.abcd" for pid in (1, 2))
    for path in (old, young):
        path.write_bytes(b"part")
    os.utime(old, (time.time() - 2 * HOUR,) * 2)
    kept.write("other", binary_of(1))
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("place", ["a file is in the way", "a file is the folder"])
def test_a_place_that_cannot_be_written_is_told_once(tmp_path, place):
    (tmp_path / "file").write_bytes(b"")
    if place == "a file is the folder":
        (tmp_path / "file").rename(tmp_path / "cubins")
    kept = CubinStore(DiskCache(tmp_path / "file" if place == "a file is in the way" else tmp_path, 1 << 20))
    with pytest.warns(
        RuntimeWarning, match=r"store of compiled kernels in .* cannot be written .*TRITEN_CACHE_DIR"
    ):
        kept.write("key", binary_of(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.write("key", binary_of(1))
        assert kept.read("key") is None


def test_an_entry_that_cannot_be_read_is_told_and_compiled_anew(kept):
    (kept.directory / "key.kernel").mkdir(parents=True)
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        assert kept.read("key") is None


def test_an_entry_that_others_could_have_written_is_told_and_compiled_anew(kept):
    kept.write("key", binary_of(1))
    (kept.directory / "key.kernel").chmod(0o666)
    with pytest.warns(RuntimeWarning, match="cannot be read .*may be written to by anybody"):
        assert kept.read("key") is None
    kept.write("key", binary_of(2))
    assert kept.read("key") == binary_of(2)


def run(program: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_full_disk_leaves_no_part_of_an_entry(tmp_path):
    # A limit on the size of files is what a process can make of a disk that takes only a part of a write.
    done = run(
        """
        import resource, sys, warnings
        from pathlib import Path
        from triten.runtime.cuda.triton.compile import KernelBinary
        from triten.runtime.cuda.triton.cubin_store import CubinStore
        from triten.runtime.disk_cache import DiskCache
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
        kept = CubinStore(DiskCache(Path(sys.argv[1]), 1 << 20))
        kept.write("small", KernelBinary("small", 90, b"code", {}, (), 4, 1, 0, 0, 1))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for key in ("large", "larger"):
                kept.write(key, KernelBinary("large", 90, bytes(5000), {}, (), 4, 1, 0, 0, 1))
        print(len(told), kept.read("large"), kept.read("small").cubin)
        """,
        tmp_path,
    )
    output, errors = done.communicate(timeout=PATIENCE)
    assert output.strip() == "1 None b'code'", errors
    assert [path.name for path in (tmp_path / "cubins").iterdir()] == ["small.kernel"]


RACER = """
    import random, sys
    from pathlib import Path
    from triten.runtime.cuda.triton.compile import KernelBinary
    from triten.runtime.cuda.triton.cubin_store import CubinStore
    from triten.runtime.disk_cache import DiskCache

    kept = CubinStore(DiskCache(Path(sys.argv[1]), 60_000))
    draw = random.Random(int(sys.argv[2]))
    def binary_of(number):
        code = random.Random(number).randbytes(5000 + 100 * number)
        return KernelBinary(f"kernel{number}", 90, code, {}, ("*fp32",), 4, 1, 0, 0, 1)
    hits = 0
    for _ in range(600):
        number = draw.randrange(16)
        found = kept.read(str(number))
        if found is None:
            kept.write(str(number), binary_of(number))
        else:
            hits += 1
            assert found == binary_of(number), number
    print(hits)
"""


def test_racing_processes_see_whole_entries_or_none(tmp_path):
    racers = [run(RACER, tmp_path, seed) for seed in range(4)]
    for racer in racers:
        output, errors = racer.communicate(timeout=PATIENCE)
        assert racer.returncode == 0, errors
        assert errors == ""
        assert 50 < int(output) < 600
    assert all(path.name.endswith(".kernel") for path in (tmp_path / "cubins").iterdir())
    sizes = [path.stat().st_size for path in (tmp_path / "cubins").iterdir()]
    assert 30_000 < sum(sizes) <= 60_000 + 4 * max(sizes)


def test_racing_threads_see_whole_entries_or_none(kept):
    failures = []

    def race(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(200):
            number = draw.randrange(4)
            kept.write(str(number), binary_of(number))
            if kept.read(str(number)) != binary_of(number):
                failures.append(number)

    threads = [threading.Thread(target=race, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(kept.directory.iterdir())) == 4


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TRITEN_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/cache", "HOME": "/home/me"}, "/own/cubins"),
        ({"TRITEN_CACHE_DIR": "", "XDG_CACHE_HOME": "/cache", "HOME": "/home/me"}, "/cache/triten/cubins"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/triten/cubins"),
        ({"HOME": "/home/me"}, "/home/me/.cache/triten/cubins"),
    ],
)
def test_the_environment_chooses_the_folder(monkeypatch, environment, expected):
    for name in ("TRITEN_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_root() == Path(expected).parent
    assert store().directory == Path(expected)
    assert store() is store()


@pytest.mark.parametrize(("given", "expected"), [("", DEFAULT_MAXSIZE), ("0", 0), ("1048576", 1 << 20)])
def test_the_environment_chooses_the_bound(monkeypatch, given, expected):
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", given)
    assert default_maxsize() == expected
    assert (store() is None) == (expected == 0)


@pytest.mark.parametrize("given", ["1G", "-1", "1.5"])
def test_a_bound_that_is_no_number_of_bytes_is_refused(monkeypatch, given):
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", given)
    with pytest.raises(ValueError, match=f"TRITEN_CACHE_MAXSIZE: expected a number of bytes, got '{given}'"):
        store()


def test_a_user_without_a_home_has_no_store(monkeypatch):
    for name in ("TRITEN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert store() is None


def test_ptx_that_is_newer_than_the_driver_is_made_anew(tmp_path, monkeypatch):
    """Recompile PTX that is newer than the driver: within a CUDA major version, an older driver may replace
    a newer one.
    """
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))
    made = []

    def compile_nothing(*arguments):
        made.append(arguments[-1])
        return dataclasses.replace(binary_of(1), ptx_version=cubin_store.ptx_version_of(arguments[-1]))

    def kernel():
        """Do nothing; the tests need any kernel."""

    kernel.fn = kernel
    monkeypatch.setattr(cubin_store, "kernel_key", lambda *_: "key")
    monkeypatch.setattr(cubin_store, "compile_kernel", compile_nothing)
    found = [
        cubin_store.find_or_compile(kernel, {}, {}, cuda=cuda).ptx_version
        for cuda in (12080, 12080, 12090, 12040, 12080)
    ]
    assert found == [87, 87, 87, 84, 84]
    assert made == [12080, 12040]
