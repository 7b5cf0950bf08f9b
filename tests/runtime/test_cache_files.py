"""Files of the caches: what another user could have written is not read, and nothing that waits."""

import errno
import os

import pytest

from triten.runtime import cache_files
from triten.runtime.cache_files import UntrustedFileError, make_own_folder, read_own_file, write_own_file

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "entry"
    path.write_bytes(b"content")
    path.chmod(0o600)
    return path


def test_a_file_of_ones_own(path):
    assert read_own_file(path, 7) == (b"content", path.stat().st_mtime)
    assert read_own_file(path, 6) is None
    with pytest.raises(FileNotFoundError):
        read_own_file(path.with_name("other"), 7)


@pytest.mark.parametrize(("owner", "is_taken"), [("mine", True), ("root's", True), ("another's", False)])
def test_owners(path, monkeypatch, owner, is_taken):
    mine = path.stat().st_uid
    monkeypatch.setattr(cache_files.os, "geteuid", lambda: mine if owner == "mine" else mine + 1)
    if owner == "root's":
        monkeypatch.setattr(cache_files, "ROOT", mine)
    elif owner == "another's":
        monkeypatch.setattr(cache_files, "ROOT", mine + 2)
    if is_taken:
        assert read_own_file(path, 100) is not None
    else:
        with pytest.raises(UntrustedFileError, match=f"belongs to user {mine}, not to this one or root"):
            read_own_file(path, 100)


def test_what_anybody_may_write_to(path):
    path.chmod(0o622)
    with pytest.raises(UntrustedFileError, match="may be written to by anybody"):
        read_own_file(path, 100)
    path.chmod(0o660)
    with pytest.raises(UntrustedFileError, match="may be written to by its group"):
        read_own_file(path, 100)
    path.chmod(0o600)
    for mode in (0o770, 0o707):
        path.parent.chmod(mode)
        with pytest.raises(UntrustedFileError, match="may be written to by"):
            read_own_file(path, 100)
    path.parent.chmod(0o700)
    assert read_own_file(path, 100) is not None


def test_folders_are_of_this_user_alone(tmp_path):
    before = os.umask(0)
    try:
        make_own_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert {(tmp_path / each).stat().st_mode & 0o777 for each in ("a", "a/b", "a/b/c")} == {0o700}
    make_own_folder(tmp_path / "a")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="is no regular file"):
            read_own_file(path, 100)
    with pytest.raises(OSError, match="is no regular file"):
        read_own_file(tmp_path, 100)


def test_a_link_is_what_it_leads_to(path):
    link = path.with_name("link")
    link.symlink_to(path)
    assert read_own_file(link, 100) is not None
    path.chmod(0o606)
    with pytest.raises(UntrustedFileError):
        read_own_file(link, 100)


def test_what_was_written_is_read_whatever_the_mask(path):
    old = os.umask(0)
    try:
        write_own_file(path, b"another")
    finally:
        os.umask(old)
    assert read_own_file(path, 100)[0] == b"another"
    assert [each.name for each in path.parent.iterdir()] == ["entry"]


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    def full(descriptor, data):
        if len(data) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return 3

    monkeypatch.setattr(cache_files.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write_own_file(path, b"another")
    assert path.read_bytes() == b"content" and [each.name for each in path.parent.iterdir()] == ["entry"]
