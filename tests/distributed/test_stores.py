"""Every kind of store keeps the store's promises; the last user of a file store removes the file."""

from __future__ import annotations

import gc
import os
from datetime import timedelta
from pathlib import Path

import pytest

from triten import distributed as dist

SHORT = timedelta(seconds=0.05)


@pytest.fixture(params=["hash", "file", "tcp", "prefix of tcp", "prefix of file"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dist.Store, dist.Store]:
    """Two objects over the same values."""
    if request.param == "hash":
        own = dist.HashStore()
        return own, own.clone()
    if "tcp" in request.param:
        master = dist.TCPStore("localhost", 0, is_master=True)
        pair: tuple[dist.Store, dist.Store] = master, dist.TCPStore("localhost", master.port)
    else:
        path = str(tmp_path / "store")
        pair = dist.FileStore(path), dist.FileStore(path)
    if "prefix" in request.param:
        return dist.PrefixStore("a", pair[0]), dist.PrefixStore("a", pair[1])
    return pair


def test_values(stores: tuple[dist.Store, dist.Store]) -> None:
    one, other = stores
    one.set("key", "value")
    one.set("bytes", b"\x00\xff\n")
    assert other.get("key") == b"value" and other.get("bytes") == b"\x00\xff\n"
    other.set("key", "")
    assert one.get("key") == b"" and one.check(["key", "bytes"]) and not one.check(["key", "none"])
    one.append("key", "a")
    other.append("key", b"b")
    one.append("new", "c")
    assert one.get("key") == b"ab" and other.get("new") == b"c"
    assert other.delete_key("new") and not one.delete_key("new") and not one.check(["new"])
    one.multi_set(["x", "y"], ["1", "2"])
    assert other.multi_get(["x", "y"]) == [b"1", b"2"]
    assert one.num_keys() == other.num_keys() >= 4
    with pytest.raises(ValueError, match="a value for each of 2 keys"):
        one.multi_set(["x", "y"], ["1"])
    with pytest.raises(TypeError, match="str or bytes"):
        one.set("key", 3)  # type: ignore[arg-type]
    one.set("a/b", "of its own")
    assert other.get("a/b") == b"of its own"


def test_numbers_and_comparisons(stores: tuple[dist.Store, dist.Store]) -> None:
    one, other = stores
    assert [one.add("n", 2), other.add("n", 3), one.add("n", -10), other.add("n", 0)] == [2, 5, -5, -5]
    one.set("text", "no number")
    with pytest.raises(dist.DistStoreError, match="expected a number"):
        other.add("text", 1)
    assert one.compare_set("c", "", "first") == b"first"
    assert other.compare_set("c", "", "second") == b"first"
    assert other.compare_set("c", "first", "second") == b"second" and one.get("c") == b"second"
    assert one.compare_set("none", "expected", "new") == b"expected" and not one.check(["none"])


def test_waiting(stores: tuple[dist.Store, dist.Store]) -> None:
    one, other = stores
    for wait in (lambda: one.wait(["late"], SHORT), lambda: limited(one).get("late")):
        with pytest.raises(dist.DistStoreError, match="late"):
            wait()
    other.set("late", "here")
    one.wait(["late"], SHORT)
    assert one.get("late") == b"here"


def limited(store: dist.Store) -> dist.Store:
    own = store.clone()
    own.set_timeout(SHORT)
    for inner in (own, getattr(own, "underlying_store", None)):
        if inner is not None:
            inner.set_timeout(SHORT)
    return own


def test_queues(stores: tuple[dist.Store, dist.Store]) -> None:
    one, other = stores
    one.queue_push("q", "a")
    other.queue_push("q", "b")
    assert one.queue_len("q") == 2
    assert [other.queue_pop("q"), one.queue_pop("q", block=False)] == [b"a", b"b"]
    with pytest.raises(dist.QueueEmptyError, match="empty"):
        one.queue_pop("q", block=False)
    with pytest.raises(dist.DistStoreError, match="q"):
        limited(one).queue_pop("q")


def test_prefixes_keep_apart() -> None:
    store = dist.HashStore()
    a, b = dist.PrefixStore("a", store), dist.PrefixStore("b", store)
    a.set("key", "of a")
    assert not b.check(["key"]) and store.num_keys() == 1
    assert dist.PrefixStore("c", a).underlying_store is a


def test_the_last_user_of_a_file_takes_it_away(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = dist.FileStore(str(path), 2), dist.FileStore(str(path), 2)
    copy = first.clone()
    first.set("key", "value")
    del first
    gc.collect()
    assert path.exists() and second.get("key") == b"value"
    del copy
    gc.collect()
    assert path.exists()
    del second
    gc.collect()
    assert not path.exists()
    dist.FileStore(str(path)).set("key", "value")  # of any number
    gc.collect()
    assert path.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"not a store, but long enough to have a head",
        b"s\0\0\0\3\0\0\0\3\xff\xff\xffend",  # a key that is no text
        b"q\0\0\0\3\0\0\0\0key",  # a value taken from a queue that is empty
        b"?\0\0\0\0\0\0\0\0",
    ],
)
def test_a_file_that_is_no_store(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store"
    path.write_bytes(content)
    with pytest.raises(dist.DistStoreError, match=os.fspath(path)):
        dist.FileStore(str(path))
