"""Complex steps among fused steps: a Triton kernel computes and loads no complex numbers."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, same

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "to complex numbers and back": lambda x: x.to(tt.complex64).to(tt.float32) * x,
    "the real part": lambda x: (x.to(tt.complex64) * 2).real + 1,
    "magnitudes": lambda x: (x.to(tt.complex64) * 1j).abs() + 1,
    "comparisons": lambda x: (x.to(tt.complex64) != 0) & (x > 0),
    "joined": lambda x: tt.cat([x.to(tt.complex64), x.to(tt.complex64) + 1]) * 2,
    "a slice": lambda x: (x.to(tt.complex64) * 2)[:, 1:] + 1,
    "permuted": lambda x: (x.to(tt.complex64) + 1).permute(1, 0) * 2,
    "gathered": lambda x: x.to(tt.complex64)[tt.tensor([0, 2], device=x.device)] * 2,
    "chosen": lambda x: tt.where(x > 0, x.to(tt.complex64), 0j),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_what_they_are_eagerly(name: str, grad: bool, device: str) -> None:
    inputs = [drawn(3, 4, device=device, grad=grad) for _ in range(2)]
    results = PROGRAMS[name](inputs[0]), tt.compile(PROGRAMS[name], fullgraph=True)(inputs[1])
    same(results[1], results[0], name)
    if results[0].requires_grad:
        for each in results:
            each.abs().sum().backward()
        same(inputs[1].grad, inputs[0].grad, name)
