"""The hash of Triton's files is computed once for all processes, and again if a file changes."""

import inspect
import io
import sys

import pytest

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triton.runtime import autotuner, cache

from triten.runtime.cuda.triton import library_hash
from triten.runtime.cuda.triton.library_hash import know_library_hash


@pytest.fixture
def computed(monkeypatch, tmp_path):
    """Replace Triton's function by one that counts its calls; return the list of them."""
    calls = []

    def compute():
        calls.append(len(calls))
        return f"hash {len(calls)}"

    for module in (cache, autotuner):
        monkeypatch.setattr(module, "triton_key", compute)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    def new_process():
        for module in (cache, autotuner):
            monkeypatch.setattr(module, "triton_key", compute)
        know_library_hash.__wrapped__()
        return cache.triton_key(), autotuner.triton_key(), len(calls)

    return new_process


def test_a_second_process_reads_what_the_first_computed(computed):
    assert computed() == ("hash 1", "hash 1", 1)
    assert computed() == ("hash 1", "hash 1", 1)


def test_a_changed_file_has_it_computed_again(computed, monkeypatch):
    computed()
    monkeypatch.setattr(library_hash, "_state_of_files", lambda: "another state")
    assert computed() == ("hash 2", "hash 2", 2)


def test_without_a_usable_folder_each_process_computes_it(computed, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(file / "folder"))
    assert computed() == ("hash 1", "hash 1", 1)
    assert computed() == ("hash 2", "hash 2", 2)


def test_an_empty_entry_is_computed_again(computed, tmp_path):
    computed()
    (entry,) = tmp_path.rglob(library_hash.FILE)
    entry.write_text("")
    assert computed() == ("hash 2", "hash 2", 2)


def test_every_file_that_triton_reads_counts(monkeypatch):
    read = []

    def recorded(path, mode):
        read.append(str(path))
        return io.BytesIO(b"")

    monkeypatch.setattr(cache, "open", recorded, raising=False)
    inspect.unwrap(cache.triton_key)()
    assert any("libtriton" in path for path in read) and len(read) > 20
    state = library_hash._state_of_files()
    assert [path for path in read if f"{path} " not in state] == []


def test_writing_or_replacing_a_file_changes_the_state(monkeypatch, tmp_path):
    import triton

    for each in ("compiler", "runtime"):
        (tmp_path / each).mkdir()
    source = tmp_path / "compiler" / "code_generator.py"
    source.write_text("a = 1")
    (tmp_path / "runtime" / "cache.py").write_text("")
    monkeypatch.setattr(triton, "__file__", str(tmp_path / "__init__.py"))
    states = [library_hash._state_of_files()]
    source.write_text("a = 12")
    states.append(library_hash._state_of_files())
    other = tmp_path / "other.py"
    other.write_text("a = 13")
    other.replace(source)
    states.append(library_hash._state_of_files())
    assert len(set(states)) == 3
