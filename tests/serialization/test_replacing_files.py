"""A save either replaces a file or leaves it as it was."""

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path

import pytest

import triten as tt

PACKAGE_PARENT = str(Path(tt.__file__).parents[1])


@pytest.fixture
def path(tmp_path):
    tt.save({"x": 1}, tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


def fail_at(monkeypatch, record):
    """Have the disk be full when this record is written."""
    write = zipfile.ZipFile.writestr

    def writestr(archive, info, data):
        if info.filename.endswith(record):
            archive.fp.write(b"part of a record")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(archive, info, data)

    monkeypatch.setattr(zipfile.ZipFile, "writestr", writestr)


@pytest.mark.parametrize("record", ["data.pkl", "data/0", "version"])
def test_a_full_disk_leaves_the_old_file(path, monkeypatch, record):
    before = path.read_bytes()
    fail_at(monkeypatch, record)
    with pytest.raises(OSError, match="No space left") as caught:
        tt.save({"x": tt.ones(1000)}, path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_a_full_disk_leaves_no_new_file(tmp_path, monkeypatch):
    fail_at(monkeypatch, "data/0")
    with pytest.raises(OSError, match="No space left"):
        tt.save(tt.ones(3), tmp_path / "new.pt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_at_the_end_leaves_the_old_file(path, monkeypatch, call):
    def fail(*args):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="Input/output error"):
        tt.save({"x": 2}, path)
    assert tt.load(path) == {"x": 1} and os.listdir(path.parent) == [path.name]


def test_an_interrupt_leaves_the_old_file(path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tt.save({"x": 2}, path)
    assert tt.load(path) == {"x": 1} and os.listdir(path.parent) == [path.name]


def test_what_cannot_be_pickled_leaves_the_old_file(path):
    with pytest.raises(Exception, match="pickle"):
        tt.save({"x": threading.Lock()}, path)
    assert tt.load(path) == {"x": 1} and os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_killed_process_leaves_the_old_file(path):
    program = """
        import os, signal, sys, zipfile
        import triten as tt
        write = zipfile.ZipFile.writestr
        def writestr(archive, info, data):
            write(archive, info, data)
            archive.fp.flush()
            if info.filename.endswith("data/0"):
                os.kill(os.getpid(), signal.SIGKILL)
        zipfile.ZipFile.writestr = writestr
        tt.save({"x": tt.ones(100000), "y": tt.ones(10)}, sys.argv[1])
    """
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PARENT}
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program), str(path)], env=environment, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert tt.load(path) == {"x": 1}
    # A killed process leaves a temporary file, whose name identifies the process.
    (left,) = [name for name in os.listdir(path.parent) if name != path.name]
    assert left.startswith(".triten-")


def test_the_old_file_is_there_until_the_new_one_is_on_the_disk(path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, n=name, o=original: (calls.append((n, tt.load(path))), o(*a))[1]
        )
    tt.save({"x": 2}, path)
    # The file, its name, and the folder's entry.
    assert calls == [("fsync", {"x": 1}), ("replace", {"x": 1}), ("fsync", {"x": 2})]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permissions_are_kept(path, mode):
    path.chmod(mode)
    tt.save({"x": 2}, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode and tt.load(path) == {"x": 2}


def test_a_new_file_has_the_permissions_of_any_new_file(path):
    with open(path.parent / "other", "wb"):
        pass
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to anything")
def test_a_file_that_may_not_be_written_to_is_not_replaced(path):
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        tt.save({"x": 2}, path)
    assert tt.load(path) == {"x": 1}


def test_a_folder_that_takes_no_other_file(path, monkeypatch):
    original = os.open

    def refuse(name, flags, *args):
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return original(name, flags, *args)

    monkeypatch.setattr(os, "open", refuse)
    tt.save({"x": 2}, path)
    assert tt.load(path) == {"x": 2}
    with pytest.raises(PermissionError) as caught:
        tt.save({"x": 2}, path.parent / "new.pt")
    assert caught.value.filename == str(path.parent / "new.pt")


def test_symbolic_links_are_followed(path):
    first, second, dangling = (path.parent / name for name in ("first", "second", "dangling"))
    first.symlink_to(path.name)
    second.symlink_to(first)
    dangling.symlink_to("made.pt")
    tt.save({"x": 2}, second)
    assert first.is_symlink() and second.is_symlink() and tt.load(path) == {"x": 2}
    tt.save({"x": 3}, dangling)
    assert dangling.is_symlink() and tt.load(path.parent / "made.pt") == {"x": 3}


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    tt.save({"x": tt.arange(1000)}, path)
    reader.join()
    assert stat.S_ISFIFO(path.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]
    assert tt.load(io.BytesIO(received[0]))["x"].sum().item() == 499500


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev")
@pytest.mark.parametrize("regular", [False, True])
def test_standard_output(tmp_path, regular):
    """Into a pipe, and into a file that the shell opened."""
    command = [sys.executable, "-P", "-c", "import triten as tt; tt.save({'x': tt.ones(3)}, '/dev/stdout')"]
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PARENT}
    with open(tmp_path / "out", "w+b") as out:
        done = subprocess.run(
            command, env=environment, check=True, stdout=out if regular else subprocess.PIPE
        )
        out.seek(0)
        data = out.read() if regular else done.stdout
    assert tt.load(io.BytesIO(data))["x"].tolist() == [1, 1, 1]
    assert os.listdir(tmp_path) == ["out"]


def test_folders_and_long_names(tmp_path):
    with pytest.raises(IsADirectoryError):
        tt.save(1, tmp_path)
    path = tmp_path / ("n" * 252 + ".pt")
    tt.save(1, path)
    assert tt.load(path) == 1 and os.listdir(tmp_path) == [path.name]


def test_file_objects_are_written_where_they_are(tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        file.write(b"before")
        tt.save([1, 2], file)
        assert not file.closed
        file.seek(6)
        assert tt.load(file) == [1, 2]
    with pytest.raises(AttributeError, match="a file-like object with a 'write' attribute, got int"):
        tt.save(1, 5)
