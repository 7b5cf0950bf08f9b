"""Records under several writers: no result is lost, no reader sees half of one."""

import json
import multiprocessing

from triten.runtime.disk_cache import DiskCache
from triten.tests.shared.threads import PATIENCE
from triten.triton_kernels.tuning.entry import Entry
from triten.triton_kernels.tuning.records import Records

KERNEL = "module:kernel"
WRITERS, QUESTIONS = 4, 50


def entry(shape, warps=4):
    return Entry(KERNEL, "0123", "bf16", shape, (64, 32), warps, 3, {"64x32 w4 s3": 1.25}, "some GPU")


def write_many(directory, writer, barrier):
    """Write records under keys of one writer, and repeatedly one under a shared key."""
    records = Records(DiskCache(directory))
    barrier.wait(PATIENCE)
    for number in range(QUESTIONS):
        records.write("GPU", entry(f"{writer} {number}"))
        records.write("GPU", entry("shared", 1 << writer))


def test_no_writer_loses_another_ones_results(tmp_path):
    # Fork, since a spawned process cannot import a test; it only writes files.
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(WRITERS + 1)
    writers = [context.Process(target=write_many, args=(tmp_path, n, barrier)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    barrier.wait(PATIENCE)
    records = Records(DiskCache(tmp_path))
    while any(writer.is_alive() for writer in writers):
        for path in records.directory.rglob("*.json"):
            json.loads(path.read_text())  # whole, whenever it is read
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = {e.shape: e for e in records.read("GPU", KERNEL)}
    expected = {f"{w} {n}" for w in range(WRITERS) for n in range(QUESTIONS)} | {"shared"}
    assert set(found) == expected
    assert found["shared"].warps in (1, 2, 4, 8)
    assert all(e == entry(shape) for shape, e in found.items() if shape != "shared")
    assert len(list(records.directory.rglob("*.json"))) == len(expected)


def test_what_a_killed_writer_left_is_no_entry(tmp_path):
    records = Records(DiskCache(tmp_path))
    records.write("GPU", entry("1"))
    (whole,) = records.directory.rglob("*.json")
    (whole.parent / f"{whole.name}.4711.0a1b").write_text(whole.read_text())
    (whole.parent / "other.json").mkdir()
    assert [e.shape for e in records.read("GPU", KERNEL)] == ["1"]


def test_devices_kernels_and_versions_have_their_own(tmp_path):
    records = Records(DiskCache(tmp_path))
    records.write("GPU", entry("1"))
    records.write("GPU", Entry(KERNEL, "4567", "bf16", "1", (8, 8), 1, 1))
    records.write("a b/c", Entry("other/../x:kernel", "0", "fp32", "", (), 1, 1))
    assert [e.source for e in records.read("GPU", KERNEL)] in (["0123", "4567"], ["4567", "0123"])
    assert list(records.read("GPU", "other:kernel")) == list(records.read("no such", KERNEL)) == []
    assert [e.kernel for e in records.read("a b/c", "other/../x:kernel")] == ["other/../x:kernel"]
    assert all(tmp_path in path.resolve().parents for path in tmp_path.rglob("*.json"))
