"""Cache files are not read if another user could have written them, or if a read would block."""

import errno
import os

import pytest

import triten as tt
import triten.hub as hub
from triten.runtime import cache_files
from triten.runtime.cache_files import UntrustedFileError, make_own_folder, read_own_file, write_own_file
from triten.runtime.cpu import object_code
from triten.runtime.cuda.triton.cubin_store import CubinStore, KernelBinary
from triten.runtime.disk_cache import DiskCache
from triten.tests.compiled_code import needs_llvm
from triten.triton_kernels.tuning.entry import Entry
from triten.triton_kernels.tuning.records import Records

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


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_folders_up_to_the_root_of_a_cache(tmp_path, mode):
    root, folder = tmp_path / "cache", tmp_path / "cache" / "objects" / "inner"
    make_own_folder(folder)
    write_own_file(folder / "entry", b"content")
    tmp_path.chmod(0o777)  # above the root
    for each in (root, root / "objects", folder):
        assert read_own_file(folder / "entry", 100, root) is not None
        each.chmod(mode)
        with pytest.raises(UntrustedFileError, match=f"{each} may be written to by"):
            read_own_file(folder / "entry", 100, root)
        each.chmod(mode | 0o1000)  # other users cannot replace files here
        assert read_own_file(folder / "entry", 100, root) is not None
        each.chmod(0o755)


def test_a_folder_of_another_user(path, monkeypatch):
    mine, fstat = os.geteuid(), os.fstat
    monkeypatch.setattr(cache_files.os, "geteuid", lambda: mine + 1)
    monkeypatch.setattr(cache_files, "ROOT", mine + 1)

    def as_other(descriptor):
        found = list(fstat(descriptor))
        found[4] = mine + 1
        return os.stat_result(found)

    monkeypatch.setattr(cache_files.os, "fstat", as_other)
    with pytest.raises(UntrustedFileError, match=f"{path.parent} belongs to user {mine}"):
        read_own_file(path, 100)


def compiled_text():
    return object_code._load(KEY, TEXT)


KEY, TEXT = "0123", "define ptr @call() {\nret ptr null\n}"


@needs_llvm
def test_a_refused_entry_is_compiled_anew_with_one_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITEN_CACHE_MAXSIZE", raising=False)
    compiled_text()
    before = object_code.counts["compiled"]
    (tmp_path / "cache").chmod(0o777)
    with pytest.warns(
        RuntimeWarning, match="are not read from .*objects, but compiled anew: .*by anybody"
    ) as told:
        compiled_text()
        compiled_text()
    assert len(told) == 1 and object_code.counts["compiled"] == before + 2
    (tmp_path / "cache").chmod(0o755)
    compiled_text()
    assert object_code.counts["compiled"] == before + 2


def test_refused_kernels_and_records_are_made_anew(tmp_path):
    cache = DiskCache(tmp_path / "cache")
    store, records = CubinStore(cache), Records(cache)
    binary = KernelBinary("add", 90, b"code", {}, ("*fp32", "i32"), 4, 1, 0, 0, 1)
    entry = Entry("module:kernel", "0a1b", "bf16", "4096:16", (128, 64), 4, 3)
    store.write("0123", binary)
    records.write("H100", entry)
    assert store.read("0123") == binary and list(records.read("H100", "module:kernel")) == [entry]
    (tmp_path / "cache").chmod(0o770)
    with pytest.warns(RuntimeWarning, match="cannot be read .*by its group") as told:
        for _ in range(2):
            assert store.read("0123") is None and list(records.read("H100", "module:kernel")) == []
    assert len(told) == 2


def test_folders_of_debug_files_and_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITEN_COMPILE_DEBUG", str(tmp_path / "debug"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hub, "_hub_dir", None)
    tt.save({"x": tt.ones(2)}, tmp_path / "weights.pt")
    before = os.umask(0)
    try:
        tt.compile(lambda x: x + 1)(tt.ones(3))
        hub.load_state_dict_from_url((tmp_path / "weights.pt").as_uri(), progress=False)
    finally:
        os.umask(before)
    made = [*tmp_path.glob("debug/**/"), *tmp_path.glob("home/**/*")]
    assert any(each.name == "weights.pt" for each in made)
    assert [each for each in made if each.stat().st_mode & 0o022] == []


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
