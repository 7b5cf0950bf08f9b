"""Namespaces of devices that there are none of answer as PyTorch's do on a machine without them; the host's is one."""

import subprocess
import sys

import pytest

import triten as tt
from triten import mtia


def test_what_programs_ask_first_is_answered():
    assert tt.xpu.is_available() is False and tt.xpu.device_count() == 0 and tt.xpu.memory_stats() == {}
    assert mtia.is_available() is False and mtia.device_count() == 0 and mtia.memory_stats() == {}
    assert tt.mps.is_available() is False and tt.mps.device_count() == 0 and tt.mps.manual_seed(1) is None
    assert tt.xpu.get_rng_state_all() is not tt.xpu.get_rng_state_all()


@pytest.mark.parametrize("name", ["current_device", "synchronize", "Stream", "device"])
def test_what_needs_a_device_is_refused(name):
    with pytest.raises(AssertionError, match=rf"xpu\.{name}: triten has no kernels for Intel's GPUs"):
        getattr(tt.xpu, name)(0)


@pytest.mark.parametrize("name", ["empty_cache", "synchronize", "Event"])
def test_what_needs_apple_s_is_refused(name):
    with pytest.raises(RuntimeError, match=rf"mps\.{name}: triten has no kernels for Apple's GPUs"):
        getattr(tt.mps, name)()


def test_functions_know_their_names():
    assert tt.xpu.seed.__name__ == "seed" and tt.xpu.seed.__module__ == "triten.xpu"
    with pytest.raises(AttributeError, match=r"'triten\.xpu' has no attribute 'nothing'"):
        _ = tt.xpu.nothing


def test_the_host_is_a_device_that_waits_for_nothing():
    first, mine = tt.cpu.current_stream(), tt.cpu.Stream()
    with tt.cpu.stream(mine):
        assert tt.cpu.current_stream() is mine
        with tt.cpu.stream(None):
            assert tt.cpu.current_stream() is mine
    assert tt.cpu.current_stream() is first
    event = tt.cpu.Event()
    event.record(mine)
    assert event.query() and event.synchronize() is None and event.wait() is None
    assert (tt.cpu.device_count(), tt.cpu.current_device(), tt.cpu.is_available()) == (1, "cpu", True)


def test_what_the_processor_can_do_is_numpy_s_to_say():
    found = tt.cpu.get_capabilities()
    assert found["architecture"] and all(isinstance(found[name], bool) for name in ("avx2", "neon"))
    level = tt.backends.cpu.get_cpu_capability()
    assert level in ("AVX512", "AVX2", "DEFAULT") and (level == "DEFAULT") != found["avx2"]


def test_they_are_imported_with_their_first_use():
    names = ("xpu", "mps", "cpu", "futures", "monitor")
    program = f"import sys, triten; print([name for name in {names} if f'triten.{{name}}' in sys.modules])"
    found = subprocess.run([sys.executable, "-P", "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout == "[]\n"
