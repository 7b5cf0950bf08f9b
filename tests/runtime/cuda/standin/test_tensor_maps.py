"""Executed sm_90 kernels with tensor maps: through CuPy's driver, with maps that the driver's library
encodes.
"""

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.tensor_map import DescribedTensor

pytestmark = pytest.mark.standin(execute=1, capability=90)


def numbers(*sizes, seed=1):
    values = np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)
    return tt.from_numpy(values).bfloat16()


def pictures(*sizes, seed=1):
    return numbers(*sizes, seed=seed).to(memory_format=tt.channels_last)


CALLS = {
    "mm": (tt.mm, [numbers(100, 328), numbers(328, 88, seed=2)], "matmul_persistent"),
    "attention": (
        F.scaled_dot_product_attention,
        [numbers(1, 1, 64, 64), numbers(1, 1, 160, 64, seed=2), numbers(1, 1, 160, 64, seed=3)],
        "attention_bulk",
    ),
    "conv2d": (
        lambda x, w: F.conv2d(x, w, padding=1),
        [pictures(1, 64, 9, 9), pictures(64, 64, 3, 3, seed=2)],
        "convolve_bulk",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_gives_the_values_of_the_cpu(standin, name):
    call, arguments, kernel = CALLS[name]
    got = call(*(each.cuda() for each in arguments)).float().cpu().numpy()
    assert standin.counts["cuTensorMapEncodeTiled"] >= 2
    assert kernel in [launch["function"] for launch in standin.launches]
    np.testing.assert_allclose(got, call(*arguments).float().numpy(), rtol=2e-2, atol=2e-2)


def test_attention_by_warps_of_different_work(standin):
    given = [numbers(1, 2, 200, 64, seed=seed) for seed in range(3)]
    results = {}
    for device in ("cuda", "cpu"):
        leaves = [each.to(device).requires_grad_() for each in given]
        out = F.scaled_dot_product_attention(*leaves, is_causal=True)
        out.backward(tt.ones_like(out))
        results[device] = [
            each.float().cpu().numpy() for each in (out.detach(), *(leaf.grad for leaf in leaves))
        ]
    names = [launch["function"] for launch in standin.launches if "warp" in launch["function"]]
    assert len(names) >= 2, [launch["function"] for launch in standin.launches]
    for got, expected in zip(results["cuda"], results["cpu"], strict=True):
        np.testing.assert_allclose(got, expected, rtol=4e-2, atol=4e-2)


def test_a_graph_of_a_kernel_by_maps_is_replayed(standin):
    x, y = numbers(100, 328).cuda(), numbers(328, 88, seed=2).cuda()
    x @ y
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        out = x @ y
    x.copy_(numbers(100, 328, seed=5))
    graph.replay()
    expected = numbers(100, 328, seed=5) @ numbers(328, 88, seed=2)
    np.testing.assert_allclose(out.float().cpu().numpy(), expected.float().numpy(), rtol=2e-2, atol=2e-2)


def compiled():
    import triton

    @triton.jit
    def copy_block(source, target):
        target.store([0, 0], source.load([0, 0]) + 1)

    block = "tensordesc<fp32[8, 8]>"
    return driver().compile(copy_block, {"source": block, "target": block}, {})


def test_a_map_that_is_larger_than_its_memory(standin):
    source, target = tt.ones(8, 8, device="cuda"), tt.empty(8, 8, device="cuda")
    exact, larger = DescribedTensor((8, 8), (8, 1)), DescribedTensor((64, 8), (8, 1))
    kernel = compiled()
    kernel.bound([exact, exact])((1, 1, 1), 0, source.data_ptr(), target.data_ptr())
    assert target.tolist() == [[2.0] * 8] * 8
    # The allocator has not handed out the bytes behind: only 256 of the block's 512.
    kernel.bound([exact, larger])((1, 1, 1), 0, source.data_ptr(), target.data_ptr() + 256)
    with pytest.raises(tt.AcceleratorError, match="an illegal memory access was encountered"):
        tt.cuda.synchronize()
    (finding,) = standin.take_findings()
    assert "kernel 'copy_block'" in finding and "cp.async.bulk" in finding


def test_a_map_that_the_driver_refuses(standin):
    x = tt.ones(8, 9, device="cuda")
    tensor = DescribedTensor((8, 8), (9, 1))
    with pytest.raises(RuntimeError, match=r"cuTensorMapEncodeTiled of sizes \[8, 8\], strides \[9, 1\]"):
        compiled().bound([tensor, tensor])((1, 1, 1), 0, x.data_ptr(), x.data_ptr())
