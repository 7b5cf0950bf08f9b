"""The fuzz target of files detects injected faults in readers; mutations fit, and parts join to the original file."""

import json
import random
from pathlib import Path

import pytest

import triten as tt
from triten.tests.fuzz.files import changes, guarded, samples
from triten.tests.fuzz.files.parts import (
    Archive,
    CheckpointMetadata,
    KernelEntry,
    Safetensors,
    changed_at,
    leaves,
)

SOURCES = (
    samples.archives,
    samples.legacy,
    samples.safetensors,
    samples.results,
    samples.kernels,
    samples.checkpoints,
)


def attempt(read, size=100):
    return guarded.attempt(read, size, (RuntimeError, (ValueError, "in these words")))


def fail(error):
    raise error


def spin():
    while True:
        pass


PLANTED = {
    "an error that is not documented": (lambda: {}["key"], "inner error"),
    "other words": (lambda: fail(ValueError("in other words")), "inner error"),
    "a kind of a documented error": (lambda: fail(RecursionError("deep")), "inner error"),
    "json's own": (lambda: json.loads("{"), "inner error"),
    "memory that is not there": (lambda: bytearray(1 << 45), "takes memory"),
    "memory out of proportion": (lambda: bytearray(1 << 27) and None, "takes memory"),
    "a file that is written": (lambda: Path("/tmp/triten-fuzz-planted").write_text(""), "does what no reading may"),
    "a process": (lambda: __import__("os").system("true"), "does what no reading may"),
    "no end": (spin, "takes long"),
    "a documented error": (lambda: fail(RuntimeError("damaged")), "refused"),
    "documented words": (lambda: fail(ValueError("in these words")), "refused"),
    "a value": (lambda: [1, tt.ones(2)], "value"),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_planted_readers(what, monkeypatch):
    read, kind = PLANTED[what]
    # Others have the time that they need on a loaded machine.
    monkeypatch.setattr(guarded, "SECONDS", 0.2 if kind == "takes long" else 60)
    reading = attempt(read)
    assert (reading.kind, reading.is_fault) == (kind, kind not in ("value", "refused")), reading


def test_a_fault_that_the_reader_swallows_is_seen_all_the_same():
    def read():
        try:
            open("/tmp/triten-fuzz-planted", "w").close()
        except BaseException:
            return 1

    assert attempt(read).kind == "does what no reading may"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_changes_are_the_same_after_json_and_mostly_change_something(source):
    rng = random.Random(0)
    changed = 0
    for _ in range(150):
        files = rng.choice(list(source().values()))
        data = rng.choice(list(files.values()))
        change = changes.draw(rng, data)
        made = changes.apply(data, change)
        assert changes.apply(data, json.loads(json.dumps(change))) == made
        changed += made != data
    assert changed > 75


def test_a_change_that_no_longer_fits_changes_nothing():
    data = samples.archives()["tensors, protocol 2"][samples.FILE]
    for change in (
        ["json", ["archive/none"], "remove", []],
        ["pickle", ["archive/data.pkl"], "delete", 10**6, 1],
        ["field", [], "central", 99, "crc", "set", 0],
        ["bytes", ["archive/data.pkl", "deeper"], "flip", 0, 1],
    ):
        assert changes.apply(data, change) == data


def test_parts_come_together_again_with_right_lengths_and_checksums(tmp_path):
    archive = samples.archives()["tensors, protocol 2"][samples.FILE]
    same = Archive.join(Archive.split(archive))
    (tmp_path / "a").write_bytes(same)
    assert guarded.digest(tt.load(tmp_path / "a", mmap=True)) == guarded.digest(tt.load(tmp_path / "a"))
    (name,) = (name for name in Archive.split(archive) if name.endswith("data.pkl"))
    longer = changed_at(archive, [name], lambda data: data + b"tail")
    (tmp_path / "b").write_bytes(longer)
    assert guarded.digest(tt.load(tmp_path / "b")) == guarded.digest(tt.load(tmp_path / "a"))
    for container, data in (
        (Safetensors, samples.safetensors()["several"][samples.FILE]),
        (KernelEntry, samples.kernels()["kernel"][f"{samples.KEY}.kernel"]),
        (CheckpointMetadata, samples.checkpoints()["state"][".metadata"]),
    ):
        assert container.accepts(data) and container.join(container.split(data)) == data


def test_leaves_reach_into_files_in_files():
    data = samples.programs()["module"][samples.FILE]
    paths = [path for path, _ in leaves(data)]
    assert ["models/model.json"] in paths and ["data/weights.safetensors", "header"] in paths


def test_digests_tell_values_apart():
    x = tt.arange(4.0)
    values = [
        x,
        x + 1,
        x.to(tt.float64),
        x.view(2, 2),
        x.view(2, 2).t(),
        [x, x],
        [x, x.clone()],
        {"a": x},
        1,
        "1",
    ]
    assert len({guarded.digest(each) for each in values}) == len(values)
    deep = []
    for _ in range(10**5):
        deep = [deep]
    assert guarded.digest(deep)
