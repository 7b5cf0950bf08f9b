"""A check finds the caller's mistakes, an internal assert ours, and says so."""

import os
import subprocess
import sys

import pytest

import triten as tt
from triten.library import InternalAssertError, check, internal_assert, internal_assert_debug_only

TYPED = {
    tt._check: RuntimeError,
    tt._check_index: IndexError,
    tt._check_value: ValueError,
    tt._check_type: TypeError,
    tt._check_not_implemented: NotImplementedError,
}


@pytest.mark.parametrize(("checked", "error"), TYPED.items(), ids=lambda each: each.__name__)
def test_each_check_raises_its_type_only_where_it_fails(checked, error):
    checked(True, lambda: pytest.fail("the message is not made"))
    with pytest.raises(error, match=r"^3 of 4$") as raised:
        checked(False, lambda: f"{3} of {4}")
    assert type(raised.value) is error
    with pytest.raises(error, match=r"^Expected cond to be True, but got False"):
        checked(False)


def test_the_general_checks():
    check(True, "no")
    with pytest.raises(KeyError, match="mine"):
        check(False, "mine", KeyError)
    with pytest.raises(KeyError, match="7"):
        tt._check_with(KeyError, False, lambda: 7)


@pytest.mark.parametrize("condition", [1, 0, None, "", tt.tensor(True)])
def test_what_is_no_bool_is_refused(condition):
    with pytest.raises(TypeError, match=r"^cond must be a bool, but got <class"):
        check(condition, "no")


def test_a_message_is_text_or_makes_it():
    with pytest.raises(TypeError, match="message must be a callable"):
        tt._check(False, 3)


def test_an_internal_assert_says_where_and_whose_fault():
    internal_assert(True, "no")
    line = sys._getframe().f_lineno + 2
    with pytest.raises(InternalAssertError) as raised:
        internal_assert(False, lambda: "two roots")
    text = str(raised.value)
    assert text.startswith(f'INTERNAL ASSERT FAILED at "{__file__}":{line}: two roots.')
    assert "bug in triten, not in your program" in text
    assert isinstance(raised.value, RuntimeError) and isinstance(raised.value, AssertionError)
    with pytest.raises(InternalAssertError, match=r"\d\. This is a bug in triten"):
        internal_assert(False)


@pytest.mark.parametrize(
    ("debug", "options", "fails"), [("1", [], True), ("0", [], False), ("", [], False), ("1", ["-O"], False)]
)
def test_a_debug_only_assert_is_looked_at_only_where_debugging(debug, options, fails):
    program = (
        "from triten.library import internal_assert_debug_only as a; a(lambda: print('asked'), 'inside')"
    )
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        env={**os.environ, "TRITEN_DEBUG": debug},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == (("asked\n", 1) if fails else ("", 0))
    assert ('INTERNAL ASSERT FAILED at "<string>":1: inside' in done.stderr) is fails


def test_a_debug_only_assert_that_holds(monkeypatch):
    monkeypatch.setattr("triten.runtime.errors.DEBUG", True)
    internal_assert_debug_only(lambda: True, "no")
    with pytest.raises(InternalAssertError):
        internal_assert_debug_only(lambda: False)


@pytest.mark.parametrize(
    "name", ["_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented"]
)
@pytest.mark.parametrize(
    "args", [(True,), (True, 3), (False,), (False, 3), (False, lambda: 3), (1,), (None, "x")]
)
def test_they_raise_what_pytorchs_raise(name, args):
    torch = pytest.importorskip("torch")

    def outcome(library):
        try:
            return getattr(library, name)(*args)
        except Exception as error:
            return type(error), str(error).partition(" (Could")[0]

    assert outcome(tt) == outcome(torch)
