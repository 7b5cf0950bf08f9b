"""Devices: their number, the current one, their properties."""

import subprocess
import sys
import threading

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver


def test_there_are_devices():
    assert tt.cuda.is_available() and tt.cuda.init() is None and tt.cuda.is_initialized()
    assert tt.cuda.device_count() == driver().device_count()


def test_counting_devices_initializes_none():
    program = (
        "import triten as tt\n"
        "print(tt.cuda.is_available(), tt.cuda.device_count(), tt.cuda.is_initialized())\n"
        "tt.cuda.init(); print(tt.cuda.device_count(), tt.cuda.is_initialized())"
    )
    count = tt.cuda.device_count()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"True {count} False", f"{count} True"]


def test_properties_by_pytorchs_names():
    found = tt.cuda.get_device_properties("cuda:0")
    assert found == tt.cuda.get_device_properties(tt.device("cuda", 0)) == tt.cuda.get_device_properties()
    assert tt.cuda.get_device_name(0) == found.name and found.name
    assert tt.cuda.get_device_capability() == (found.major, found.minor)
    for name in (
        *("total_memory", "multi_processor_count", "warp_size", "shared_memory_per_block"),
        *("shared_memory_per_block_optin", "shared_memory_per_multiprocessor", "regs_per_multiprocessor"),
        *("max_threads_per_multi_processor", "max_threads_per_block", "L2_cache_size", "max_shared_memory"),
    ):
        assert getattr(found, name) > 0, name
    assert found.shared_memory_per_block_optin == found.max_shared_memory
    assert isinstance(found.uuid, str) and found.memory_clock_rate >= 0 and found.is_integrated in (0, 1)


def test_the_current_device():
    assert tt.cuda.current_device() == 0
    tt.cuda.set_device(1)
    assert tt.ones(1, device="cuda").device == tt.device("cuda:1") and tt.cuda.current_device() == 1
    tt.cuda.set_device(-1)
    assert tt.cuda.current_device() == 1
    tt.cuda.set_device("cuda:0")
    assert tt.cuda.current_device() == 0


def test_the_current_device_belongs_to_a_thread():
    seen = []
    with tt.cuda.device(1):
        thread = threading.Thread(target=lambda: seen.append(tt.cuda.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_the_guard_puts_the_device_back():
    with pytest.raises(ZeroDivisionError), tt.cuda.device("cuda:1"):
        assert tt.cuda.current_device() == 1
        with tt.cuda.device(0):
            assert tt.cuda.current_device() == 0
        with tt.cuda.device(None), tt.cuda.device(-1):
            assert tt.cuda.current_device() == 1
        raise ZeroDivisionError
    assert tt.cuda.current_device() == 0
    with pytest.raises(RuntimeError, match="invalid device ordinal"), tt.cuda.device(5):
        pass
    assert tt.cuda.current_device() == 0


def test_device_of_follows_a_tensor_or_a_storage():
    x = tt.ones(2, device="cuda:1")
    for owner in (x, x.untyped_storage()):
        with tt.cuda.device_of(owner):
            assert tt.cuda.current_device() == 1
    with tt.cuda.device_of(tt.ones(2)):
        assert tt.cuda.current_device() == 0


def test_operators_run_on_the_device_of_their_tensors():
    x = tt.arange(4.0, device="cuda:1")
    y = (x * 2).sum()
    assert y.device == x.device and y.item() == 12.0 and tt.cuda.current_device() == 0
    with pytest.raises(RuntimeError, match="cuda:0"):
        x + tt.ones(4, device="cuda:0")
    assert (x + 1).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_peers():
    assert tt.cuda.can_device_access_peer(0, "cuda:1") in (True, False)
    assert not tt.cuda.can_device_access_peer(0, 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tt.cuda.set_device(None), ValueError, "with a specified index or an integer, but got:None"),
        (lambda: tt.cuda.set_device("cuda"), ValueError, "with a specified index"),
        (lambda: tt.cuda.set_device("cpu"), ValueError, "Expected a cuda device, but got: cpu"),
        (lambda: tt.cuda.set_device(9), RuntimeError, "invalid device ordinal: got 9, expected 0 to 1"),
        (lambda: tt.cuda.device("cpu"), ValueError, "Expected a cuda device"),
        (lambda: tt.cuda.get_device_properties(9), AssertionError, "Invalid device id: got 9"),
        (lambda: tt.cuda.get_device_name(-1), AssertionError, "Invalid device id"),
        (lambda: tt.cuda.get_device_capability("meta"), ValueError, "Expected a cuda device"),
        (lambda: tt.cuda.can_device_access_peer(0, 9), AssertionError, "Invalid peer device id: got 9"),
        (lambda: tt.cuda.can_device_access_peer(0, None), ValueError, "with a specified index"),
        (lambda: tt.cuda.synchronize(9), RuntimeError, "invalid device ordinal"),
        (lambda: tt.ones(2, device="cuda:9"), RuntimeError, "invalid device ordinal"),
        (lambda: tt.cuda.get_rng_state(9), IndexError, "got 9, there are 2"),
        (lambda: tt.cuda.set_rng_state(tt.zeros(3)), TypeError, "uint8"),
        (lambda: driver().library_handle("cudnn"), ValueError, "got 'cudnn'"),
    ],
)
def test_bad_devices_are_refused_and_all_goes_on(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert tt.cuda.current_device() == 0 and tt.ones(1, device="cuda").item() == 1.0


@pytest.mark.interpreter
def test_the_interpreter_has_no_blas():
    with pytest.raises(RuntimeError, match="simulated devices have no cublas"):
        tt.cuda.current_blas_handle()


def test_what_the_kernels_are_written_for():
    assert tt.cuda.get_arch_list() == ["sm_80", "sm_90", "sm_100"]
    supported = tt.cuda.get_device_capability() >= (8, 0)
    assert tt.cuda.is_bf16_supported() is tt.cuda.is_bf16_supported(False) is supported
    assert tt.cuda.is_tf32_supported() is supported


def test_random_states_of_each_device():
    tt.cuda.manual_seed_all(11)
    states = tt.cuda.get_rng_state_all()
    assert len(states) == tt.cuda.device_count() and states[0].dtype is tt.uint8
    first = [tt.rand(3, device=f"cuda:{i}").tolist() for i in range(2)]
    assert first[0] == first[1], "the same seed gives the same numbers on both"
    tt.cuda.set_rng_state_all(states)
    assert [tt.rand(3, device=f"cuda:{i}").tolist() for i in range(2)] == first
    tt.cuda.set_rng_state(states[1], "cuda:1")
    assert tt.rand(3, device="cuda:1").tolist() == first[1]
    with tt.cuda.device(1):
        tt.cuda.manual_seed(5)
        assert tt.cuda.initial_seed() == 5
        assert tt.cuda.get_rng_state_all()[1].tolist() == tt.cuda.get_rng_state(1).tolist()
        assert tt.cuda.get_rng_state(0).tolist() != tt.cuda.get_rng_state(1).tolist()
        assert tt.cuda.get_rng_state().tolist() == tt.cuda.get_rng_state(1).tolist()
    assert tt.cuda.initial_seed() == 11
    assert tt.cuda.seed() is None and tt.cuda.initial_seed() != 11
    assert tt.cuda.seed_all() is None
    with tt.cuda.device(1):
        second = tt.cuda.initial_seed()
    assert tt.cuda.initial_seed() == second
