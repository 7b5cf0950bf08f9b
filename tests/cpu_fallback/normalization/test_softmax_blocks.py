"""Softmax in blocks on the CPU: every layout, one thread and several, little memory."""

import tracemalloc

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.normalization import softmax as module
from triten.cpu_fallback.normalization import softmax_rows

SHAPES = [(701, 3), (3, 701), (37, 5, 11), (1, 2, 700), (5, 4, 3, 11)]
FUNCTIONS = {"softmax": tt.softmax, "log_softmax": tt.log_softmax}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [tt.float64, tt.bfloat16], ids=lambda d: d.name)
def test_blocks_have_whole_lines(rng, monkeypatch, threads, name, dtype):
    monkeypatch.setattr(module, "BLOCK", 64 + threads)
    monkeypatch.setattr(module, "RUN", 8)
    tolerance = 1e-13 if dtype is tt.float64 else 4e-2
    for sizes in SHAPES:
        # Plans are kept by shape.
        sizes = (*sizes[:-1], sizes[-1] + threads)
        a = rng.standard_normal(sizes)
        for order in (range(len(sizes)), range(len(sizes) - 1, -1, -1)):
            for dim in range(len(sizes)):
                x = tt.from_numpy(a).to(dtype).permute(*order).contiguous().permute(*order).requires_grad_()
                wide = x.detach().to(tt.float64).numpy()
                shifted = np.exp(wide - wide.max(dim, keepdims=True))
                p = shifted / shifted.sum(dim, keepdims=True)
                y = FUNCTIONS[name](x, dim)
                expected = p if name == "softmax" else np.log(p)
                got = y.detach().to(tt.float64).numpy()
                np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
                g = tt.from_numpy(rng.standard_normal(y.shape)).to(dtype)
                y.backward(g)
                g = g.to(tt.float64).numpy()
                total = (g * p if name == "softmax" else g).sum(dim, keepdims=True)
                expected = p * (g - total) if name == "softmax" else g - p * total
                bound = tolerance * (1 + np.abs(total).max())
                np.testing.assert_allclose(x.grad.to(tt.float64).numpy(), expected, rtol=0, atol=bound)


@pytest.mark.parametrize("dim", [0, 1])
def test_memory_is_that_of_the_output_and_of_a_few_blocks(dim):
    x = tt.rand(2000, 2000).to(tt.bfloat16)
    tt.softmax(x, dim)
    tracemalloc.start()
    y = tt.softmax(x, dim)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    nbytes = y.numel() * y.element_size()
    # A block of columns is the larger: 512 of them.
    assert (
        nbytes
        <= peak
        < nbytes + tt.get_num_threads() * 4 * 4 * (512 * 2000 if dim == 0 else softmax_rows.WIDENED_BLOCK)
    )
