"""A lazy placeholder behaves as the module that it imports at first use."""

import importlib
import importlib.util
import inspect
import subprocess
import sys

import pytest

from triten.runtime.lazy_import import LazyModule, when_imported


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


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "other.py").write_text("")
    (folder / "module.py").write_text("two = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] == "late_package"]:
        del sys.modules[name]


def test_whoever_waits_for_a_module_is_told(package):
    told = []
    when_imported("late_package.module", lambda: told.append(sys.modules["late_package.module"].two))
    before = list(sys.meta_path)
    importlib.import_module("late_package.other")
    assert importlib.util.find_spec("late_package.module") is not None
    assert told == []
    module = importlib.import_module("late_package.module")
    assert (
        told == [2]
        and module.__spec__.loader is module.__loader__
        and inspect.getsource(module) == "two = 2\n"
    )
    assert sys.meta_path == before[1:]
    when_imported("late_package.module", lambda: told.append("again"))
    assert told == [2, "again"]


def test_several_may_wait_for_one_module(package):
    told = []
    for each in (1, 2):
        when_imported("late_package.module", lambda each=each: told.append(each))
    importlib.import_module("late_package.module")
    assert sorted(told) == [1, 2]


def test_waiting_for_a_module_that_is_not_there_changes_no_error():
    when_imported("late_module_of_nobody", pytest.fail)
    with pytest.raises(ModuleNotFoundError, match="late_module_of_nobody"):
        importlib.import_module("late_module_of_nobody")


def test_tensors_are_shared_by_python_s_own_multiprocessing_whenever_it_is_imported():
    program = """
import sys
import triten as tt
assert "multiprocessing.reduction" not in sys.modules
from multiprocessing.reduction import ForkingPickler
assert tt.Tensor in ForkingPickler._extra_reducers
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
