"""The disk cache: one bound for all parts, least recently used first, under many writers; damage; the environment."""

import json
import os
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from triten.compiler.triton import source_files
from triten.runtime.cache_files import UntrustedFileError
from triten.runtime.cpu import object_code
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.cubin_store import CubinStore, store
from triten.runtime.disk_cache import PARTS, DiskCache, disk_cache
from triten.tests.shared.threads import PATIENCE
from triten.triton_kernels.tuning.entry import Entry
from triten.triton_kernels.tuning.records import Records, records

HOUR = 3600


def total(root):
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def age(cache, part, name, hours):
    moment = time.time() - hours * HOUR
    os.utime(cache.path(part, name), (moment, moment))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_entries_of_each_part(tmp_path, part, is_sealed):
    cache = DiskCache(tmp_path / "cache")
    assert cache.read(part, "entry") is None and not cache.root.exists()
    for data in (b"first", b"", b"second"):
        cache.write(part, "entry", data, is_sealed=is_sealed)
        assert DiskCache(cache.root).read(part, "entry", is_sealed=is_sealed) == data
    assert [path.name for path in cache.folder(part).iterdir()] == [f"entry{PARTS[part]}"]
    assert cache.names(part, ".") == ["./entry"] and cache.names(part, "other") == []


def test_damaged_sealed_entries_are_missing(tmp_path):
    cache = DiskCache(tmp_path)
    cache.write("objects", "one", b"code", is_sealed=True)
    path = tmp_path / "objects" / "one.o"
    whole = path.read_bytes()
    for damaged in (*(whole[:n] for n in range(len(whole))), whole + b"x", bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(damaged)
        assert cache.read("objects", "one", is_sealed=True) is None
    path.write_bytes(whole)
    path.rename(path.with_name("two.o"))
    assert cache.read("objects", "two", is_sealed=True) is None, "it belongs to another name"


def test_entries_above_the_limit_of_a_reader_are_missing(tmp_path):
    cache = DiskCache(tmp_path)
    cache.write("tuning", "entry", b"1234")
    assert cache.read("tuning", "entry", max_bytes=4) == b"1234"
    assert cache.read("tuning", "entry", max_bytes=3) is None


@pytest.mark.skipif(os.name != "posix", reason="files have no owners here")
def test_folders_and_trust(tmp_path):
    cache = DiskCache(tmp_path / "deep" / "cache")
    old = os.umask(0)
    try:
        cache.write("tuning", "device/kernel/entry", b"{}")
    finally:
        os.umask(old)
    folders = [cache.root.parent, cache.root, *(each for each in cache.root.rglob("*") if each.is_dir())]
    assert len(folders) == 5 and {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}
    for folder in folders[1:]:
        folder.chmod(0o770)
        with pytest.raises(UntrustedFileError, match="by its group"):
            cache.read("tuning", "device/kernel/entry")
        folder.chmod(0o700)
    assert cache.read("tuning", "device/kernel/entry") == b"{}"


def test_the_least_recently_used_of_all_parts_go_first(tmp_path):
    cache = DiskCache(tmp_path, 1000)
    for number, part in enumerate(PARTS):
        cache.write(part, "entry", bytes(240))
        age(cache, part, "entry", 9 - number)
    assert cache.read("cubins", "entry") is not None, "which makes it the most recently used"
    cache.write("cubins", "another", bytes(240))
    left = {part for part in PARTS if (tmp_path / part / f"entry{PARTS[part]}").exists()}
    assert left == {"cubins", "tuning"} and total(tmp_path) <= 900


def test_use_is_recorded_once_an_hour(tmp_path):
    cache = DiskCache(tmp_path)
    cache.write("objects", "entry", b"code")
    for hours, is_recorded in ((0.5, False), (1.5, True)):
        age(cache, "objects", "entry", hours)
        before = os.stat(cache.path("objects", "entry")).st_mtime
        cache.read("objects", "entry")
        assert (os.stat(cache.path("objects", "entry")).st_mtime > before) == is_recorded


def test_files_of_others_are_neither_counted_nor_removed(tmp_path):
    (tmp_path / "objects").mkdir()
    for name in ("notes.txt", "objects/notes.txt", "more.o"):
        (tmp_path / name).write_bytes(bytes(5000))
    (tmp_path / "objects" / "linked").symlink_to(tmp_path)
    cache = DiskCache(tmp_path, 1000)
    for number in range(8):
        cache.write("objects", str(number), bytes(300))
    assert 1 <= len(list((tmp_path / "objects").glob("*.o"))) <= 3
    assert all((tmp_path / name).exists() for name in ("notes.txt", "objects/notes.txt", "more.o"))


def test_orphans_of_killed_writers_are_removed(tmp_path):
    for part, suffix in PARTS.items():
        (tmp_path / part).mkdir()
        for pid, hours in ((1, 2), (2, 0)):
            path = tmp_path / part / f"entry{suffix}.{pid}.abcd"
            path.write_bytes(b"part")
            os.utime(path, (time.time() - hours * HOUR,) * 2)
    DiskCache(tmp_path).write("objects", "another", b"code")
    assert sorted(path.name for path in tmp_path.rglob("*.abcd")) == sorted(
        f"entry{suffix}.2.abcd" for suffix in PARTS.values()
    )


WRITER = """
    import random, sys
    from pathlib import Path
    from triten.runtime.disk_cache import PARTS, DiskCache

    cache, rng = DiskCache(Path(sys.argv[1]), 60_000), random.Random(int(sys.argv[2]))
    for _ in range(400):
        part, number = rng.choice(list(PARTS)), rng.randrange(40)
        data = random.Random(number).randbytes(1000 + 50 * number)
        found = cache.read(part, str(number), is_sealed=True)
        assert found in (None, data), number
        if found is None:
            cache.write(part, str(number), data, is_sealed=True)
"""


def test_many_processes_exceed_the_bound_by_a_sixteenth_each(tmp_path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", textwrap.dedent(WRITER), str(tmp_path), str(seed)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(3)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=PATIENCE)
        assert writer.returncode == 0, errors
    largest = 1000 + 50 * 40
    assert 30_000 < total(tmp_path) <= 60_000 * (1 + 3 / 16) + 3 * largest
    assert {path.parent.name for path in tmp_path.rglob("*") if path.is_file()} == set(PARTS)


def test_many_threads_keep_one_bound(tmp_path):
    cache = DiskCache(tmp_path, 20_000)

    def work(part):
        for number in range(100):
            cache.write(part, str(number), bytes(500))

    threads = [threading.Thread(target=work, args=(part,)) for part in PARTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cache.write("objects", "last", bytes(500))
    assert 10_000 < total(tmp_path) <= 20_000 * (1 + 1 / 16) + 500
    assert cache.read("objects", "last") is not None


def kernel():
    return KernelBinary("add", 90, bytes(3000), {}, ("*fp32",), 4, 1, 0, 0, 1)


def entry():
    return Entry("module:kernel", "0a1b", "bf16", "4096:16", (128, 64), 4, 3)


USERS = {
    "cubins": lambda: (store() is not None) and store().write("key", kernel()),
    "objects": lambda: object_code._write("key", bytes(3000)),
    "sources": lambda: source_files._written("triten_generated_0", f"# {'x' * 3000}\n"),
    "tuning": lambda: (records() is not None) and records().write("device", entry()),
}
"""What writes each part."""


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("TRITEN_CACHE_MAXSIZE", "TRITEN_TUNING_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("part", PARTS)
def test_each_user_writes_into_its_part(root, part):
    USERS[part]()
    assert {path.parent.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()} == {part}


@pytest.mark.parametrize("part", PARTS)
def test_a_bound_of_zero_turns_each_user_off(root, monkeypatch, part):
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", "0")
    USERS[part]()
    assert disk_cache() is None and not root.exists()
    assert object_code._read("key") is None and store() is None and records() is None


@pytest.mark.parametrize("part", PARTS)
def test_each_user_evicts_what_another_one_left(root, monkeypatch, part):
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", "8000")
    cache = disk_cache()
    for number, other in enumerate(PARTS):
        cache.write(other, "old", bytes(7500 // len(PARTS)))
        age(cache, other, "old", 9 - number)
    for _ in range(2):  # a small entry is measured with the second one at the latest
        monkeypatch.setattr(cache, "_size", None)
        USERS[part]()
    if part == "tuning":
        cache.write(part, "more", bytes(1500))
    assert not os.path.exists(cache.path("cubins", "old"))
    assert total(root) <= 8000


@pytest.mark.parametrize("part", PARTS)
def test_each_user_refuses_a_bound_that_is_no_number(root, monkeypatch, part):
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", "1G")
    with pytest.raises(ValueError, match="TRITEN_CACHE_MAXSIZE: expected a number of bytes, got '1G'"):
        USERS[part]()


def test_values_come_back_from_each_user(root):
    for write in USERS.values():
        write()
    cache = disk_cache()
    assert CubinStore(cache).read("key") == kernel() and object_code._read("key") == bytes(3000)
    assert list(Records(cache).read("device", "module:kernel")) == [entry()]
    (found,) = (root / "tuning").rglob("*.json")
    assert json.loads(found.read_text())["kernel"] == "module:kernel", "a person can read it"


def test_a_module_outlives_its_source_file(root):
    module = source_files.module_of("def answer():\n    return 42  # outlives\n")
    path = module.__file__
    assert os.path.exists(path)
    os.unlink(path)
    import inspect

    assert inspect.getsource(module.answer) == "def answer():\n    return 42  # outlives\n"
