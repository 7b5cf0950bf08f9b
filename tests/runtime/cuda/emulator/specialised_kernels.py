"""Warp-specialized matmuls, run on an emulated sm_90 and compared with NumPy.

Run it in a process of its own with ``TRITEN_CUDA=emulate TRITEN_EMULATE=90``; it prints a line for each
kernel.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.tensor_map import DescribedTensor

M, N, K = 192, 128, 320


@triton.jit
def by_given_maps(a, b, out, k, BLOCK: tl.constexpr):
    """Multiply matrices through the tensor maps that the launch passes."""
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for step in tl.range(0, tl.cdiv(k, BLOCK), warp_specialize=True):
        total = tl.dot(a.load([row, step * BLOCK]), b.load([step * BLOCK, column]), total)
    out.store([row, column], total.to(tl.bfloat16))


@triton.jit
def by_own_maps(a, b, out, m, n, k, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Each block makes the maps in shared memory and publishes them."""
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [ROWS, BLOCK])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BLOCK, ROWS])
    result = tl.make_tensor_descriptor(out, [m, n], [n, 1], [ROWS, ROWS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * ROWS
    total = tl.zeros((ROWS, ROWS), tl.float32)
    for step in tl.range(0, tl.cdiv(k, BLOCK), warp_specialize=True):
        total = tl.dot(left.load([row, step * BLOCK]), right.load([step * BLOCK, column]), total)
    result.store([row, column], total.to(tl.bfloat16))


def main() -> None:
    """Run both kernels."""
    rng = np.random.default_rng(0)
    a, b = (
        tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(tt.bfloat16)
        for sizes in ((M, K), (K, N))
    )
    exact = a.double().numpy() @ b.double().numpy()
    on_device = [a.cuda(), b.cuda()]

    def report(name: str, kernel: Any, out: Any) -> None:
        found = out.cpu().double().numpy()
        wrong = float((np.abs(found - exact) > 2**-7 * np.abs(exact) + 1e-3).sum())
        print(json.dumps({"kernel": name, "wrong": wrong, "warps": kernel._binary.num_warps}), flush=True)

    def fresh() -> tuple[Any, list[int]]:
        out = tt.empty(M, N, dtype=tt.bfloat16, device="cuda")
        return out, [int(each.data_ptr()) for each in (*on_device, out)]

    block = 64
    out, addresses = fresh()
    type_ = f"tensordesc<bf16[{block}, {block}]>"
    kernel = driver().compile(
        by_given_maps,
        {"a": type_, "b": type_, "out": type_, "k": "i32"},
        {"BLOCK": block},
        divisible=frozenset(("a", "b", "out")),
        num_warps=4,
        num_stages=3,
    )
    launch = kernel.bound([DescribedTensor((x, y), (y, 1)) for x, y in ((M, K), (K, N), (M, N))])
    launch((M // block, N // block, 1), 0, *addresses, K)
    report("by_given_maps", kernel, out)

    rows = 128
    out, addresses = fresh()
    names = ("a", "b", "out", "m", "n", "k")
    kernel = driver().compile(
        by_own_maps,
        {**dict.fromkeys(names[:3], "*bf16"), **dict.fromkeys(names[3:], "i32")},
        {"ROWS": rows, "BLOCK": block},
        divisible=frozenset(names),
        num_warps=4,
        num_stages=3,
    )
    kernel.launch((-(-M // rows), N // rows, 1), 0, *addresses, M, N, K)
    report("by_own_maps", kernel, out)


if __name__ == "__main__":
    main()
