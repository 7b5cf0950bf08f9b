"""What stands for a module until it is imported behaves as the module."""

import importlib
import sys

import pytest

from triten.runtime.lazy_import import LazyModule


@pytest.fixture
def lazy(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("value = 1\ndef get(): return value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield LazyModule("late_module")
    sys.modules.pop("late_module", None)


def test_the_module_is_imported_with_its_first_use(lazy):
    assert "late_module" not in sys.modules
    assert lazy.get() == 1 and "late_module" in sys.modules
    assert "value" in dir(lazy)


def test_what_is_set_is_set_on_the_module(lazy):
    lazy.value = 2
    assert lazy.get() == 2 and importlib.import_module("late_module").value == 2
    del lazy.value
    assert not hasattr(lazy, "value") and not hasattr(sys.modules["late_module"], "value")
