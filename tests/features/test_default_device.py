"""Factories use the named device, a thread's ``with`` block, or the process's default device."""

import threading

import pytest

import triten as tt

FACTORIES = {
    "arange": lambda: tt.arange(3),
    "as_tensor": lambda: tt.as_tensor([1.0]),
    "asarray": lambda: tt.asarray([1.0]),
    "bartlett_window": lambda: tt.bartlett_window(4),
    "blackman_window": lambda: tt.blackman_window(4),
    "empty": lambda: tt.empty(2, 3),
    "empty_permuted": lambda: tt.empty_permuted((2, 3), (1, 0)),
    "empty_strided": lambda: tt.empty_strided((2,), (3,)),
    "eye": lambda: tt.eye(2),
    "fftfreq": lambda: tt.fft.fftfreq(4),
    "full": lambda: tt.full((2,), 1.5),
    "hann_window": lambda: tt.hann_window(4),
    "linspace": lambda: tt.linspace(0, 1, 3),
    "logspace": lambda: tt.logspace(0, 1, 3),
    "ones": lambda: tt.ones(2),
    "rand": lambda: tt.rand(2),
    "randint": lambda: tt.randint(3, (2,)),
    "randn": lambda: tt.randn(2),
    "randperm": lambda: tt.randperm(3),
    "rfftfreq": lambda: tt.fft.rfftfreq(4),
    "scalar_tensor": lambda: tt.scalar_tensor(1.0),
    "tensor": lambda: tt.tensor([1.0, 2.0]),
    "tril_indices": lambda: tt.tril_indices(3, 4, 1),
    "triu_indices": lambda: tt.triu_indices(3, 4, -1),
    "zeros": lambda: tt.zeros(2),
    "a layer": lambda: tt.nn.Linear(2, 3).weight,
}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_factory_in_a_block(name):
    make = FACTORIES[name]
    outside = make()
    with tt.device("meta") as device:
        assert device is tt.device("meta")
        inside = make()
    assert inside.is_meta and inside.shape == outside.shape and inside.dtype is outside.dtype
    assert not outside.is_meta and not make().is_meta


def test_blocks_nest_and_named_devices_win():
    meta, cpu = tt.device("meta"), tt.device("cpu")
    with meta:
        assert tt.zeros(1, device="cpu").device is cpu and tt.get_default_device() is meta
        assert tt.zeros_like(tt.zeros(1, device="cpu")).device is cpu
        with cpu, meta, cpu:
            assert tt.zeros(1).device is cpu and tt.get_default_device() is cpu
        assert tt.zeros(1).is_meta
    assert tt.get_default_device() is cpu
    with pytest.raises(ValueError, match="in the block"), meta:
        raise ValueError("in the block")
    assert tt.zeros(1).device is cpu


def test_a_block_belongs_to_its_thread():
    found = []
    with tt.device("meta"):
        thread = threading.Thread(
            target=lambda: found.append((tt.zeros(1).device.type, tt.get_default_device().type))
        )
        thread.start()
        thread.join()
        assert tt.zeros(1).is_meta
    assert found == [("cpu", "cpu")]


def test_a_block_goes_before_the_default_of_the_process():
    try:
        tt.set_default_device("meta")
        with tt.device("cpu"):
            assert tt.zeros(1).device.type == "cpu" and tt.tensor(1.0).device.type == "cpu"
        assert tt.zeros(1).is_meta and tt.get_default_device().type == "meta"
    finally:
        tt.set_default_device(None)


def test_functions_have_their_own_code_again():
    before = tt.zeros.__code__
    with tt.device("meta"):
        assert tt.zeros.__code__ is not before
    tt.zeros(1)
    assert tt.zeros.__code__ is before


@pytest.mark.skipif(tt.cuda.device_count() < 2, reason="no second CUDA device, and none interpreted")
def test_a_block_of_a_cuda_device():
    with tt.device("cuda", 1):
        assert tt.arange(3).device == tt.device("cuda", 1)
    assert tt.arange(3).device.type == "cpu"
