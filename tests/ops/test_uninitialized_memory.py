"""Elements that no operator writes, under `tt.use_deterministic_algorithms`."""

import math

import pytest

import triten as tt
from triten.utils import deterministic


@pytest.fixture
def fills():
    tt.use_deterministic_algorithms(True)
    yield
    tt.use_deterministic_algorithms(False)
    deterministic.fill_uninitialized_memory = True


def x():
    return tt.ones(2, 3)


FACTORIES = {
    "empty": lambda device: tt.empty(2, 3, device=device),
    "channels_last": lambda device: tt.empty(1, 2, 3, 1, memory_format=tt.channels_last, device=device),
    "empty_like": lambda device: tt.empty_like(x().to(device)),
    "empty_strided": lambda device: tt.empty_strided((2, 3), (1, 2), device=device),
    "with gaps": lambda device: tt.empty_strided((2, 3), (6, 2), device=device),
    "empty_permuted": lambda device: tt.empty_permuted((2, 3), (1, 0), device=device),
    "new_empty": lambda device: x().to(device).new_empty(6),
    "new_empty_strided": lambda device: x().to(device).new_empty_strided((2, 3), (3, 1)),
    "resize_": lambda device: tt.empty(0, device=device).resize_(2, 3),
    "resize_as_": lambda device: tt.empty(0, device=device).resize_as_(x()),
    "out": lambda device: tt.empty(2, 3, out=tt.ones(2, 3, device=device)),
    "Tensor": lambda device: tt.Tensor(2, 3),
    "new": lambda device: x().to(device).new(2, 3),
    "to_empty": lambda device: tt.nn.Linear(6, 1, device="meta").to_empty(device=device).weight.detach(),
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_values(make, device, fills):
    assert make(device).isnan().flatten().tolist() == [True] * 6
    deterministic.fill_uninitialized_memory = False
    assert make(device).numel() == 6


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(tt.int64, 2**63 - 1), (tt.int8, 127), (tt.uint8, 255), (tt.uint16, 65535), (tt.bool, True)],
    ids=str,
)
def test_values_of_integers(dtype, value, fills):
    assert tt.empty(2, dtype=dtype).tolist() == [value, value]


@pytest.mark.parametrize(
    "dtype", [tt.float16, tt.bfloat16, tt.float64, tt.float8_e5m2, tt.complex64], ids=str
)
def test_values_of_floats(dtype, fills):
    found = tt.empty(2, dtype=dtype).to(tt.complex64).tolist()
    assert all(math.isnan(each.real) and each.imag == 0 for each in found)


def test_resize_keeps_the_elements_in_memory(fills):
    assert tt.ones(2).resize_(3).nan_to_num(5.0).tolist() == [1.0, 1.0, 5.0]
    assert tt.ones(4).resize_(2).resize_(4).tolist() == [1.0] * 4
    assert tt.ones(6)[2:4].resize_(3).tolist() == [1.0] * 3


def test_the_setting_may_change_between_calls():
    def written():
        made = tt.empty(1 << 12, dtype=tt.uint8)
        return made.tolist() == [255] * (1 << 12)

    tt.zeros(1 << 12, dtype=tt.uint8)
    try:
        for mode in (False, True, False, True):
            tt.use_deterministic_algorithms(mode)
            assert not mode or written()
            assert tt.empty(0).numel() == 0 and tt.empty(2, device="meta").numel() == 2
    finally:
        tt.use_deterministic_algorithms(False)
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        deterministic.fill_uninitialized_memory = 1
