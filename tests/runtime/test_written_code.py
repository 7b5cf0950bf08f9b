"""Generated code as text: compiled once, with lines for tracebacks, and bounded."""

import inspect
import linecache
import threading
import traceback
from collections import OrderedDict

import pytest

import triten as tt
from triten.runtime import written_code
from triten.runtime.written_code import MAX_TEXTS, compiled, defined


def text_of(number):
    return f"def made():\n    return {number}\n"


def registered():
    """Return the registered file names, without those registered before the test."""
    return [name for name in linecache.cache if name.startswith("<triten ") and name not in before]


before = set()


@pytest.fixture(autouse=True)
def codes_of_its_own(monkeypatch):
    """Start each test without written code, and keep the code of existing plans."""
    before.update(name for name in linecache.cache if name.startswith("<triten "))
    monkeypatch.setattr(written_code, "_codes", OrderedDict())
    yield
    for name in registered():
        del linecache.cache[name]
    before.clear()


def test_a_text_is_compiled_once_and_each_has_a_file_name_of_its_own():
    first, again, other = (compiled(text_of(n), "test") for n in ("'a'", "'a'", "'b'"))
    assert first is again and first is not other
    assert first.co_filename != other.co_filename
    assert first.co_filename.startswith("<triten test #") and first.co_filename.endswith(">")


def test_the_same_text_under_another_label_has_that_name():
    assert compiled(text_of(1), "one").co_filename.startswith("<triten one #")
    assert compiled(text_of(1), "two").co_filename.startswith("<triten two #")


def test_what_is_defined_finds_its_names():
    assert defined("twice", "def twice(x):\n    return times * len(x)\n", "test", {"times": 2})("abc") == 6


def test_a_traceback_and_inspect_show_the_lines():
    made = defined("made", "def made(x):\n    y = x\n    return y[1]  # here\n", "test", {})
    with pytest.raises(IndexError) as caught:
        made([0])
    *_, last = traceback.extract_tb(caught.value.__traceback__)
    assert last.filename == made.__code__.co_filename
    assert (last.lineno, last.line) == (3, "return y[1]  # here")
    assert inspect.getsource(made).splitlines()[-1] == "    return y[1]  # here"
    linecache.checkcache()
    assert linecache.getline(last.filename, 2) == "    y = x\n"


def test_texts_and_their_lines_are_bounded_and_the_latest_stay():
    for number in range(MAX_TEXTS + 50):
        compiled(text_of(number), "many")
    assert len(written_code._codes) == MAX_TEXTS
    assert len(registered()) <= MAX_TEXTS
    newest = compiled(text_of(MAX_TEXTS + 49), "many")
    assert linecache.getline(newest.co_filename, 1) == "def made():\n"


def test_what_is_asked_for_again_stays():
    kept = compiled(text_of("'kept'"), "test")
    for number in range(MAX_TEXTS - 1):
        compiled(text_of(number), "others")
        compiled(text_of("'kept'"), "test")
    assert compiled(text_of("'kept'"), "test") is kept
    assert linecache.getline(kept.co_filename, 1)


def test_a_function_outlives_its_text():
    made = defined("made", text_of("'old'"), "test", {})
    for number in range(MAX_TEXTS + 1):
        compiled(text_of(number), "newer")
    assert linecache.getline(made.__code__.co_filename, 1) == ""
    assert made() == "old"


def test_threads_may_ask_at_once():
    found = []

    def ask():
        found.extend((n, defined("made", text_of(n), "thread", {})()) for n in range(200))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 800 and all(number == value for number, value in found)
    assert len(written_code._codes) <= MAX_TEXTS
    assert len(registered()) <= MAX_TEXTS


def test_plans_of_other_shapes_are_the_same_text():
    def run(size):
        x = tt.ones(size, 3)
        return (x + x).sum(0).relu().view(3, 1)[1:].exp()

    run(2)
    written = registered()
    for size in range(3, 60):
        run(size)
    assert registered() == written
