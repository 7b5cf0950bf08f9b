"""Files that are read by their path: what is no regular file is refused at once."""

import os

import pytest

import triten as tt
from triten.distributed.checkpoint.coordination import CheckpointException
from triten.runtime.regular_file import open_regular

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")

READERS = {
    "load": tt.load,
    "unsafe globals": tt.serialization.get_unsafe_globals_in_checkpoint,
    "exported program": tt.export.load,
    "open_regular": open_regular,
}


@pytest.mark.parametrize("read", READERS)
def test_a_fifo_and_a_device_are_refused(read, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/zero"):
        with pytest.raises(OSError, match="is no regular file"):
            READERS[read](path)
    with pytest.raises(IsADirectoryError):
        READERS[read](tmp_path)


@pytest.mark.parametrize("part", [".metadata", "shard"])
def test_a_fifo_in_a_checkpoint_is_refused(part, tmp_path):
    checkpoint = tt.distributed.checkpoint
    checkpoint.save({"x": tt.ones(3)}, checkpoint_id=tmp_path)
    name = next(each for each in tmp_path.iterdir() if (each.name == ".metadata") is (part == ".metadata"))
    name.unlink()
    os.mkfifo(name)
    with pytest.raises(CheckpointException, match="is no regular file"):
        checkpoint.load({"x": tt.zeros(3)}, checkpoint_id=tmp_path)


def test_a_fifo_is_not_mapped(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RuntimeError, match="is no regular file"):
        tt.UntypedStorage.from_file(tmp_path / "fifo", False, 8)
