"""Kernel fusion: `relu((a + b) * c)` captured and run as one kernel, on both backends."""

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import agree, drawn


def chain(a: tt.Tensor, b: tt.Tensor, c: tt.Tensor) -> tt.Tensor:
    return tt.relu((a + b) * c)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16, tt.int32], ids=str)
def test_kernel_fusion(dtype: tt.dtype, device: str) -> None:
    def operands() -> tuple[tt.Tensor, ...]:
        return tuple(drawn(33, 65, device=device, dtype=dtype, seed=seed) for seed in range(3))

    schedule = tt.compiler.explain(chain, *operands()).schedules[0]
    (kernel,) = schedule.steps
    assert kernel.name == "add_mul_relu"
    compiled = agree(chain, operands)
    if device == "cuda":
        given = operands()
        before = driver().launches
        compiled(*given)
        assert driver().launches == before + 1
