"""Files that are read by their path: what is no regular file is refused at once."""

import importlib.util
import os
from pathlib import Path

import pytest

import triten as tt
import triten.hub as hub
from triten.distributed.checkpoint.coordination import CheckpointException
from triten.distributed.elastic.multiprocessing.errors import ErrorHandler, ProcessFailure
from triten.perf.result_file import read_result
from triten.runtime.regular_file import open_regular

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")

READERS = {
    "load": tt.load,
    "unsafe globals": tt.serialization.get_unsafe_globals_in_checkpoint,
    "exported program": tt.export.load,
    "open_regular": open_regular,
    "open_regular for writing": lambda path: open_regular(path, "r+b"),
    "result file": lambda path: read_result(Path(path)),
}
if importlib.util.find_spec("safetensors"):
    READERS |= {"safe_open": tt.safetensors.safe_open, "load_file": tt.safetensors.load_file}


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


MAPPINGS = {
    "untyped storage": lambda path, shared: tt.UntypedStorage.from_file(path, shared, 8),
    "from_file": lambda path, shared: tt.from_file(path, shared, 2),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_fifo_and_a_device_are_not_mapped(mapping, shared, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/zero"):
        with pytest.raises(RuntimeError, match="is no regular file"):
            MAPPINGS[mapping](str(path), shared)


def test_a_fifo_has_no_records(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RuntimeError, match=r"PyTorchFileReader: cannot open .* is no regular file"):
        tt.PyTorchFileReader(tmp_path / "fifo")


def test_a_fifo_in_the_hub_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    for name in ("hubconf.py", "hub/trusted_list", "hub/checkpoints/weights.pt"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="is no regular file"):
        hub.load(tmp_path, "model", source="local")
    with pytest.raises(OSError, match="is no regular file"):
        hub.load("somebody/something:main", "model", trust_repo="check")
    with pytest.raises(OSError, match="is no regular file"):
        hub.load_state_dict_from_url("file:///nowhere/weights.pt")


def test_a_fifo_of_a_store_or_an_error_file_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="is no regular file"):
        tt.distributed.FileStore(str(tmp_path / "fifo"), 1).set("key", "value")
    with pytest.raises(OSError, match="is no regular file"):
        ErrorHandler().dump_error_file(str(tmp_path / "fifo"))
    monkeypatch.setattr(os.path, "isfile", lambda path: True)  # it took a file's place
    assert "is no regular file" in ProcessFailure(0, 1, 1, str(tmp_path / "fifo")).message


def test_new_files_are_written_to_by_their_user_alone(tmp_path):
    before = os.umask(0)
    try:
        open_regular(tmp_path / "new", "w+b").close()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644
