"""Classes of shapes, and which configurations may answer."""

import pytest

from triten.runtime.device import device as Device
from triten.triton_kernels.budget import Configuration, name_of
from triten.triton_kernels.tuning.question import Question, candidates, declared, shape_class


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), ""),
        ((0,), "0"),
        ((1, 2, 3, 4, 5, 6, 7, 8), "1 2 3 4 5 6 7 8"),
        ((16, 17, 32), "16:16 16 32:16"),
        ((4096, 4095, 4097), "4096:16 4096 4096"),
        ((2**40,), f"{2**40}:16"),
        ((50257,), "46341"),
    ],
)
def test_the_class_of_a_shape(shape, expected):
    assert shape_class(shape) == expected


def test_classes_hold_what_is_near_and_part_what_is_not():
    for size in (9, 100, 1000, 12345, 10**9 + 7):
        assert shape_class((size,)) == shape_class((int(size * 1.01) | 1,)) or size < 20
        assert shape_class((size,)) != shape_class((int(size * 1.25) | 1,))
    middles = [int(shape_class((n,)).partition(":")[0]) for n in range(1, 5000)]
    assert middles == sorted(middles)
    assert all(abs(middle - n) <= 0.1 * n + 0.5 for n, middle in enumerate(middles, 1))


def test_candidates_are_the_default_and_what_the_device_takes(made_up, here):
    assert [c.tile for c in declared(name_of(made_up), "bf16", 80)] == [(256,), (512,), (64,)]
    assert [c.tile for c in declared(name_of(made_up), "bf16", 90)] == [(256,), (512,)]
    assert declared(name_of(made_up), "i8", 90) == declared("nowhere:nothing", "bf16", 90) == ()
    question = Question(name_of(made_up), here, "bf16", "4096")
    smaller = Configuration((32,), 4)
    assert [c.tile for c in candidates(question, smaller)] == [(32,), (256,), (512,)]
    assert [c.tile for c in candidates(question, Configuration((512,), 8, blocks=1))] == [(512,), (256,)]
    assert str(question) == "made_up bf16 at 4096 on cuda:0"
    assert Device("cuda", 0) == here
