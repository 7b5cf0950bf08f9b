"""Loops that are written for the processor's vectors are right for every width that LLVM can legalize."""

from __future__ import annotations

import subprocess
import sys

import pytest

from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm

PROGRAM = """
import sys
from triten.runtime.cpu import object_code

own = object_code.target()
object_code.target = lambda: own._replace(vector_bits=int(sys.argv[1]))
import triten as tt

def operands(seed, *shapes, dtype):
    generator = tt.Generator().manual_seed(seed)
    return [tt.randn(shape, generator=generator, dtype=tt.float64).to(dtype).requires_grad_() for shape in shapes]

def both(function, *shapes):
    results = []
    for dtype in (tt.float32, tt.float64):
        given = operands(0, *shapes, dtype=dtype)
        out = function(*given)
        out.backward(operands(1, out.shape, dtype=dtype)[0].detach())
        results.append([out.detach(), *(each.grad for each in given)])
    for single, double in zip(*results):
        tt.testing.assert_close(single.double(), double, rtol=1e-4, atol=2e-4)

F = tt.nn.functional
both(lambda x, w: F.conv2d(x, w, padding=1), (2, 29, 11, 13), (35, 29, 3, 3))
both(lambda x, w: F.conv2d(x, w, stride=2, padding=1), (2, 67, 9, 9), (33, 67, 3, 3))
both(lambda x, w: F.conv2d(x, w, padding=3, stride=2), (2, 3, 33, 31), (19, 3, 7, 7))
both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *[(2, 3, 70, 20)] * 3)
both(lambda x, *w: tt.lstm(x, [tt.zeros(1, 21, 64, dtype=x.dtype)] * 2, w, True, 1, 0.0, True, False, False)[0],
     (9, 21, 11), (256, 11), (256, 64), (256,), (256,))
print(object_code.counts["compiled"] + object_code.counts["read"])
"""


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_convolutions_attention_and_recurrent_layers(bits: int) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, str(bits)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= 6, "loops were not used"
