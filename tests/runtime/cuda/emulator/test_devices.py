"""Which device is emulated, and what a launch with tensor descriptors refuses."""

from typing import Any

import numpy as np
import pytest

from triten.runtime.cuda.emulator.driver import AMPERE, BLACKWELL, HOPPER, emulated_device
from triten.runtime.cuda.emulator.tensor_maps import EncoderLibrary, decode
from triten.runtime.cuda.tensor_map import DescribedTensor, TensorMaps

META = {
    "block_size": [8, 64],
    "elem_size": 2,
    "elem_type": 10,
    "swizzle": 3,
    "fp4_padded": False,
    "is_im2col": False,
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, AMPERE), ("", AMPERE), ("80", AMPERE), ("90", HOPPER), ("100", BLACKWELL)],
)
def test_the_environment_chooses_the_device(monkeypatch: Any, given: str | None, expected: Any) -> None:
    if given is None:
        monkeypatch.delenv("TRITEN_EMULATE", raising=False)
    else:
        monkeypatch.setenv("TRITEN_EMULATE", given)
    assert emulated_device() is expected


def test_a_device_that_is_not_emulated(monkeypatch: Any) -> None:
    monkeypatch.setenv("TRITEN_EMULATE", "103")
    with pytest.raises(RuntimeError, match="TRITEN_EMULATE: expected 80, 90 or 100, got '103'"):
        emulated_device()


def test_a_map_as_a_launch_makes_it() -> None:
    """Encode a map by the function for GPUs: bfloat16 is type 10 of the compiler and type 9 of the driver."""
    given = TensorMaps(EncoderLibrary(), DescribedTensor((100, 200), (256, 1)), META)[4096]
    found = decode(given[:128])
    assert (found.type, found.address, found.sizes, found.pitches) == (9, 4096, (200, 100), (2, 512))
    assert (found.box, found.steps, found.swizzle, found.nbytes) == ((64, 8), (1, 1), 3, 1024)
    assert np.frombuffer(given[128:136], np.int32).tolist() == [100, 200]
    assert np.frombuffer(given[136:], np.int64).tolist() == [256, 1]


def test_a_map_that_the_driver_refuses() -> None:
    maps = TensorMaps(EncoderLibrary(), DescribedTensor((100, 200), (250, 1)), META)
    with pytest.raises(
        RuntimeError, match=r"invalid argument: cuTensorMapEncodeTiled .* strides \[500\] in bytes"
    ):
        maps[4096]
