"""Functions of the root namespace that read and set the state of the process."""

import warnings

import numpy as np
import pytest

import triten as tt
from triten.dispatch.functions import process_state


@pytest.mark.parametrize(("key", "device"), [("cpu", "cpu"), ("gpu", "cuda"), ("ipu", "ipu"), ("xla", "xla")])
def test_former_names_of_autocast_s_dtypes(key, device):
    before = tt.get_autocast_dtype(device)
    with pytest.warns(DeprecationWarning, match=rf"Please use get_autocast_dtype\('{device}'\) instead"):
        assert getattr(tt, f"get_autocast_{key}_dtype")() is before
    try:
        with pytest.warns(DeprecationWarning, match=rf"set_autocast_dtype\('{device}', dtype\)") as caught:
            getattr(tt, f"set_autocast_{key}_dtype")(tt.float32)
        assert caught[0].filename == __file__ and tt.get_autocast_dtype(device) is tt.float32
    finally:
        tt.set_autocast_dtype(device, before)


def test_former_names_of_autocast_s_switches():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not tt.is_autocast_cpu_enabled()
        tt.set_autocast_cpu_enabled(True)
        try:
            assert tt.is_autocast_cpu_enabled() and tt.is_autocast_enabled("cpu")
        finally:
            tt.set_autocast_cpu_enabled(False)


def test_threads_between_operators_are_said_once(monkeypatch):
    monkeypatch.setattr(process_state, "_interop", [])
    assert tt.get_num_interop_threads() == tt.get_num_threads()
    for bad in (0, -1, True, 1.5):
        with pytest.raises(RuntimeError, match="set_num_interop_threads expects"):
            tt.set_num_interop_threads(bad)
    tt.set_num_interop_threads(3)
    assert tt.get_num_interop_threads() == 3
    with pytest.raises(RuntimeError, match="cannot set number of interop threads after"):
        tt.set_num_interop_threads(4)


def test_a_tensor_over_a_file(tmp_path):
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.int16).tofile(path)
    private = tt.from_file(path, size=4, dtype=tt.int16)
    private[0] = 9
    assert private.tolist() == [9, 1, 2, 3] and np.fromfile(path, np.int16)[0] == 0
    shared = tt.from_file(path, True, 4, dtype=tt.int16)
    shared[0] = 7
    assert np.fromfile(path, np.int16)[0] == 7 and tt.from_file(path).shape == (0,)
    with pytest.raises(RuntimeError, match="smaller than the required mapping size"):
        tt.from_file(path, size=100)
    with pytest.raises(RuntimeError, match="cannot be pinned"):
        tt.from_file(path, size=1, pin_memory=True)
    with pytest.raises(NotImplementedError, match="expected the CPU, got meta"):
        tt.from_file(path, size=1, device="meta")


def test_one_of_two_functions(device):
    x = tt.ones(2, device=device, requires_grad=True)
    y = tt.cond(x.sum() > 1, lambda a: a * 3, lambda a: a, (x,))
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and tt.cond(False, lambda: 1, lambda: 2) == 2
    for bad, message in (
        ((tt.ones(2), abs, abs), "single-element tensor, but got tensor"),
        (("yes", abs, abs), "single-element tensor, but got 'yes'"),
        ((True, 1, abs), "both branches to be callable"),
        ((True, abs, abs, 3), "operands to be a tuple"),
    ):
        with pytest.raises(RuntimeError, match=message):
            tt.cond(*bad)


def test_what_the_process_has():
    assert tt.has_lapack and tt.has_spectral and not tt.has_mkl and not tt.has_openmp
    assert tt.set_flush_denormal(True) is False and tt.compiled_with_cxx11_abi() is True
    assert not tt.is_vulkan_available() and not tt.is_distributed(tt.ones(1))
    with pytest.raises(TypeError, match="set_flush_denormal expects a bool, but got int"):
        tt.set_flush_denormal(1)


def test_warnings_that_are_given_once_may_be_given_always():
    assert not tt.is_warn_always_enabled()
    tt.set_warn_always(True)
    try:
        assert tt.is_warn_always_enabled()
        for _ in range(2):
            with pytest.warns(UserWarning, match="overload of add is deprecated"):
                tt.add(tt.ones(1), 2, tt.ones(1))
    finally:
        tt.set_warn_always(False)
