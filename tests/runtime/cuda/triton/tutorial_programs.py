"""Programs in plain Triton over triten's tensors, in the style of Triton's tutorials; `test_tutorials.py`
runs them.

`python -m pytest tutorial_programs.py` runs them on the devices that TRITEN_CUDA selects.
"""

import pytest
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

import triten as tt
from triten._inductor.runtime import triton_helpers
from triten.runtime.cuda.driver import wants_interpreter


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


def test_the_vector_sum():
    x = tt.rand(1000, device="cuda")
    y = tt.rand(1000, device="cuda")
    o = tt.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, o, 1000, BLOCK=256)
    assert tt.equal(o, x + y)


@triton.jit
def softmax_kernel(
    out, inp, in_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr, num_stages: tl.constexpr
):
    r0 = tl.program_id(0)
    step = tl.num_programs(0)
    for r in tl.range(r0, n_rows, step, num_stages=num_stages):
        c = tl.arange(0, BLOCK)
        m = c < n_cols
        row = tl.load(inp + r * in_stride + c, mask=m, other=-float("inf"))
        row = row - tl.max(row, axis=0)
        e = tl.exp(row)
        tl.store(out + r * out_stride + c, e / tl.sum(e, axis=0), mask=m)


def test_softmax():
    x = tt.randn(37, 100, device="cuda")
    y = tt.empty_like(x)
    BLOCK = triton.next_power_of_2(100)
    props = triton.runtime.driver.active.utils.get_device_properties(0)
    k = softmax_kernel.warmup(
        y, x, x.stride(0), y.stride(0), 37, 100, BLOCK=BLOCK, num_stages=2, num_warps=8, grid=(1,)
    )
    k._init_handles()
    if not wants_interpreter():
        regs = k.n_regs
        assert props["max_num_regs"] // (max(regs, 1) * props["warpSize"] * 8) > 0
    softmax_kernel[4, 1, 1](y, x, x.stride(0), y.stride(0), 37, 100, BLOCK, 2)
    assert tt.allclose(y.cpu(), x.cpu().softmax(1), atol=1e-06)


@triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 32, "BK": 32, "GROUP": 2}, num_stages=2, num_warps=4),
        triton.Config({"BM": 64, "BN": 32, "BK": 32, "GROUP": 2}, num_stages=3, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({"EVEN": lambda a: a["K"] % a["BK"] == 0})
@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    EVEN: tl.constexpr,
    ACT: tl.constexpr,
):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    per = GROUP * nn
    g = pid // per
    first = g * GROUP
    size = min(nm - first, GROUP)
    pm = first + pid % per % size
    pn = pid % per // size
    tl.assume(pm >= 0)
    tl.assume(sam > 0)
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    pa = a + om[:, None] * sam + ok[None, :] * sak
    pb = b + ok[:, None] * sbk + on[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        if EVEN:
            x = tl.load(pa)
            y = tl.load(pb)
        else:
            x = tl.load(pa, mask=ok[None, :] < K - k * BK, other=0.0)
            y = tl.load(pb, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK * sak
        pb += BK * sbk
    if ACT == "leaky":
        acc = tl.where(acc >= 0, acc, 0.01 * acc)
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    tl.store(
        c + om[:, None] * scm + on[None, :] * scn,
        acc.to(tl.float16),
        mask=(om[:, None] < M) & (on[None, :] < N),
    )


def test_matmul():
    for K in (64, 72):
        a = tt.randn(96, K, device="cuda", dtype=tt.float16)
        b = tt.randn(K, 80, device="cuda", dtype=tt.float16)
        c = tt.empty(96, 80, device="cuda", dtype=tt.float16)
        matmul_kernel[lambda m: (triton.cdiv(96, m["BM"]) * triton.cdiv(80, m["BN"]),)](
            a, b, c, 96, 80, K, *a.stride(), *b.stride(), *c.stride(), ACT="leaky"
        )
        r = a.cpu().float() @ b.cpu().float()
        r = tt.where(r >= 0, r, 0.01 * r)
        assert tt.allclose(c.cpu().float(), r, atol=0.01, rtol=0.01)
    assert matmul_kernel.best_config is not None


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=m)


def test_dropout():
    x = tt.ones(1000, device="cuda")
    a, b, c = (tt.empty_like(x) for _ in range(3))
    dropout_kernel[1,](x, a, 1000, 0.5, 123, BLOCK=1024)
    dropout_kernel[1,](x, b, 1000, 0.5, 123, BLOCK=1024)
    dropout_kernel[1,](x, c, 1000, 0.5, 512, BLOCK=1024)
    assert tt.equal(a, b) and (not tt.equal(a, c)) and (400 < int((a == 2).sum()) < 600)


@triton.jit
def ln_fwd(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    Y += r * stride
    X += r * stride
    s = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        c = off + tl.arange(0, BLOCK)
        s += tl.load(X + c, mask=c < N, other=0.0).to(tl.float32)
    mean = tl.sum(s, axis=0) / N
    v = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        c = off + tl.arange(0, BLOCK)
        x = tl.load(X + c, mask=c < N, other=0.0).to(tl.float32)
        x = tl.where(c < N, x - mean, 0.0)
        v += x * x
    rstd = 1 / tl.sqrt(tl.sum(v, axis=0) / N + eps)
    tl.store(Mean + r, mean)
    tl.store(Rstd + r, rstd)
    for off in range(0, N, BLOCK):
        c = off + tl.arange(0, BLOCK)
        m = c < N
        x = tl.load(X + c, mask=m, other=0.0).to(tl.float32)
        tl.store(Y + c, (x - mean) * rstd * tl.load(W + c, mask=m) + tl.load(B + c, mask=m), mask=m)


@triton.jit
def ln_bwd(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP
    Lock += lock_id
    Count = Lock + GROUP
    DW = DW + lock_id * N + c
    DB = DB + lock_id * N + c
    x = tl.load(X + c, mask=m, other=0).to(tl.float32)
    dy = tl.load(DY + c, mask=m, other=0).to(tl.float32)
    w = tl.load(W + c, mask=m).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(m, xhat, 0.0)
    wdy = tl.where(m, wdy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(DX + c, (wdy - (xhat * c1 + c2)) * rstd, mask=m)
    pdw = (dy * xhat).to(w.dtype)
    pdb = dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        pdw += tl.load(DW, mask=m)
        pdb += tl.load(DB, mask=m)
    tl.store(DW, pdw, mask=m)
    tl.store(DB, pdb, mask=m)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


def test_layer_norm():
    M, N, G = (20, 70, 3)
    x = tt.randn(M, N, device="cuda")
    w = tt.rand(N, device="cuda")
    b = tt.rand(N, device="cuda")
    dy = tt.randn(M, N, device="cuda")
    y = tt.empty_like(x)
    mean = tt.empty(M, device="cuda")
    rstd = tt.empty(M, device="cuda")
    ln_fwd[M,](x, y, w, b, mean, rstd, x.stride(0), N, 1e-05, BLOCK=64)
    hx, hw, hb = (t.cpu().requires_grad_() for t in (x, w, b))
    ref = tt.nn.functional.layer_norm(hx, (N,), hw, hb, 1e-05)
    ref.backward(dy.cpu())
    assert tt.allclose(y.cpu(), ref, atol=1e-05)
    dx = tt.empty_like(x)
    dw = tt.zeros(G, N, device="cuda")
    db = tt.zeros(G, N, device="cuda")
    lock = tt.zeros(2 * G, dtype=tt.int32, device="cuda")
    ln_bwd[M,](dx, dy, dw, db, x, w, mean, rstd, lock, x.stride(0), N, GROUP=G, BLOCK=128, num_warps=4)
    assert (
        tt.allclose(dx.cpu(), hx.grad, atol=1e-05)
        and tt.allclose(dw.sum(0).cpu(), hw.grad, atol=0.0001)
        and tt.allclose(db.sum(0).cpu(), hb.grad, atol=0.0001)
    )


@triton.jit
def asin_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(y + i, libdevice.asin(tl.load(x + i, mask=m)), mask=m)


def test_asin():
    x = tt.rand(100, device="cuda")
    y = tt.empty_like(x)
    asin_kernel[1,](x, y, 100, BLOCK=128)
    assert tt.allclose(y.cpu(), x.cpu().asin(), atol=1e-06)


@triton.jit
def attn(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    Lse,
    scale,
    T,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    start = tl.program_id(0)
    h = tl.program_id(1)
    y = h * T
    q = q_desc.load([y + start * BM, 0])
    mi = tl.zeros([BM], dtype=tl.float32) - float("inf")
    li = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    om = start * BM + tl.arange(0, BM)
    on = tl.arange(0, BN)
    hi = (start + 1) * BM if CAUSAL else T
    for n in tl.range(0, hi, BN):
        k = k_desc.load([y + n, 0]).T
        qk = tl.dot(q, k) * scale * 1.44269504
        if CAUSAL:
            qk = tl.where(om[:, None] >= n + on[None, :], qk, -1000000.0)
        mij = tl.maximum(mi, tl.max(qk, 1))
        p = tl.math.exp2(qk - mij[:, None])
        alpha = tl.math.exp2(mi - mij)
        acc = acc * alpha[:, None]
        v = v_desc.load([y + n, 0])
        acc = tl.dot(p.to(tl.float16), v, acc)
        li = li * alpha + tl.sum(p, 1)
        mi = mij
    acc = acc / li[:, None]
    tl.store(Lse + y + om, mi + tl.math.log2(li))
    o_desc.store([y + start * BM, 0], acc.to(tl.float16))


def test_attention():
    H, T, D = (2, 64, 32)
    q, k, v = (tt.randn(H, T, D, device="cuda", dtype=tt.float16) for _ in range(3))
    o = tt.empty_like(q)
    lse = tt.empty(H, T, device="cuda")
    ds = [TensorDescriptor(t, shape=[H * T, D], strides=[D, 1], block_shape=[32, D]) for t in (q, k, v, o)]
    attn[T // 32, H](*ds, lse, 0.3, T, D=D, BM=32, BN=32, CAUSAL=True)
    r = tt.nn.functional.scaled_dot_product_attention(
        q.cpu().float(), k.cpu().float(), v.cpu().float(), is_causal=True, scale=0.3
    )
    assert tt.allclose(o.cpu().float(), r, atol=0.01)


has_block_pointers = pytest.mark.skipif(
    tuple(int(each) for each in triton.__version__.split(".")[:2]) >= (3, 9),
    reason="Triton has none from 3.9 on",
)


@triton.jit
def batched_matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    pa = tl.make_block_ptr(a + batch * M * K, (M, K), (K, 1), (i * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b + batch * K * N, (K, N), (N, 1), (0, j * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        x = tl.load(pa, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(pb, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y)
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c + batch * M * N, (M, N), (N, 1), (i * BM, j * BN), (BM, BN), (1, 0))
    tl.store(pc, acc.to(tl.float16), boundary_check=(0, 1))


@has_block_pointers
def test_block_pointers():
    B, M, N, K = 5, 40, 24, 56
    a = tt.randn(B, M, K, device="cuda", dtype=tt.float16)
    b = tt.randn(B, K, N, device="cuda", dtype=tt.float16)
    c = tt.empty(B, M, N, device="cuda", dtype=tt.float16)
    batched_matmul_kernel[triton.cdiv(M, 16), triton.cdiv(N, 16), B](a, b, c, M, N, K, BM=16, BN=16, BK=32)
    assert tt.allclose(c.cpu().float(), a.cpu().float() @ b.cpu().float(), atol=0.02, rtol=0.01)


@triton.jit
def row_sums_kernel(x, out, stride, N, BLOCK: tl.constexpr):
    row = tl.make_block_ptr(x + tl.program_id(0) * stride, (N,), (1,), (0,), (BLOCK,), (0,))
    total = tl.sum(tl.load(row, boundary_check=(0,), padding_option="zero"), axis=0)
    tl.store(tl.make_block_ptr(out + tl.program_id(0), (1,), (1,), (0,), (1,), (0,)), total[None])


@has_block_pointers
def test_block_pointers_to_rows():
    x = tt.randn(37, 50, device="cuda")
    out = tt.empty(37, device="cuda")
    row_sums_kernel[37,](x, out, x.stride(0), 50, BLOCK=64)
    assert tt.allclose(out.cpu(), x.cpu().sum(1), atol=1e-5)


@triton.jit
def grouped(
    a_ptrs,
    b_ptrs,
    c_ptrs,
    sizes,
    lds,
    G,
    NUM_SM: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    last = 0
    for g in range(G):
        M = tl.load(sizes + g * 3)
        N = tl.load(sizes + g * 3 + 1)
        K = tl.load(sizes + g * 3 + 2)
        nm = tl.cdiv(M, BM)
        nn = tl.cdiv(N, BN)
        nt = nm * nn
        while tile >= last and tile < last + nt:
            lda = tl.load(lds + g * 3)
            ldb = tl.load(lds + g * 3 + 1)
            ldc = tl.load(lds + g * 3 + 2)
            a = tl.load(a_ptrs + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_ptrs + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_ptrs + g).to(tl.pointer_type(tl.float16))
            t = tile - last
            tm = t // nn
            tn = t % nn
            om = tm * BM + tl.arange(0, BM)
            on = tn * BN + tl.arange(0, BN)
            ok = tl.arange(0, BK)
            pa = a + om[:, None] * lda + ok[None, :]
            pb = b + ok[:, None] * ldb + on[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(tl.cdiv(K, BK)):
                tl.multiple_of(pa, [16, 16])
                acc += tl.dot(tl.load(pa), tl.load(pb))
                pa += BK
                pb += BK * ldb
            tl.store(c + om[:, None] * ldc + on[None, :], acc.to(tl.float16))
            tile += NUM_SM
        last = last + nt


def test_grouped_gemm():
    A = [tt.randn(m, k, device="cuda", dtype=tt.float16) for m, k in ((64, 32), (32, 64))]
    B = [tt.randn(k, n, device="cuda", dtype=tt.float16) for k, n in ((32, 32), (64, 96))]
    C = [tt.empty(a.shape[0], b.shape[1], device="cuda", dtype=tt.float16) for a, b in zip(A, B, strict=True)]
    P = [tt.tensor([t.data_ptr() for t in X], device="cuda") for X in (A, B, C)]
    sizes = tt.tensor(
        [v for a, b in zip(A, B, strict=True) for v in (a.shape[0], b.shape[1], a.shape[1])],
        dtype=tt.int32,
        device="cuda",
    )
    lds = tt.tensor(
        [v for a, b, c in zip(A, B, C, strict=True) for v in (a.stride(0), b.stride(0), c.stride(0))],
        dtype=tt.int32,
        device="cuda",
    )
    grouped[2,](*P, sizes, lds, 2, NUM_SM=2, BM=32, BN=32, BK=32)
    for a, b, c in zip(A, B, C, strict=True):
        assert tt.allclose(c.cpu().float(), a.cpu().float() @ b.cpu().float(), atol=0.02, rtol=0.01)


@triton.jit
def persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, NUM_SMS: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), nm * nn, NUM_SMS, flatten=True):
        pm = tile // nn
        pn = tile % nn
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([pm * BM, ki * BK]), b.load([pn * BN, ki * BK]).T, acc)
        c.store([pm * BM, pn * BN], acc.to(tl.float16))


def test_persistent_matmul():
    a = tt.randn(64, 64, device="cuda", dtype=tt.float16)
    b = tt.randn(96, 64, device="cuda", dtype=tt.float16)
    c = tt.empty(64, 96, device="cuda", dtype=tt.float16)
    triton.set_allocator(lambda size, align, stream: tt.empty(size, device="cuda", dtype=tt.int8))
    n = triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    persistent[n,](a, b, c, 64, 96, 64, BM=32, BN=32, BK=32, NUM_SMS=n)
    assert tt.allclose(c.cpu().float(), a.cpu().float() @ b.cpu().float().T, atol=0.02, rtol=0.01)


def test_do_bench():
    x = tt.rand(1000, device="cuda")
    y = tt.empty_like(x)
    ms = triton.testing.do_bench(lambda: add_kernel[4,](x, x, y, 1000, BLOCK=256), warmup=1, rep=1)
    times = triton.testing.do_bench(
        lambda: add_kernel[4,](x, x, y, 1000, BLOCK=256), warmup=1, rep=1, quantiles=[0.5, 0.2, 0.8]
    )
    assert ms >= 0 and len(times) == 3


def test_graphs():
    x = tt.rand(1000, device="cuda")
    y = tt.empty_like(x)
    add_kernel[4,](x, x, y, 1000, BLOCK=256)
    g = tt.cuda.CUDAGraph()
    with tt.cuda.graph(g):
        add_kernel[4,](x, x, y, 1000, BLOCK=256)
    x.fill_(3.0)
    y.zero_()
    g.replay()
    tt.cuda.synchronize()
    assert (y == 6).all()


def test_streams():
    x = tt.rand(1000, device="cuda")
    y = tt.empty_like(x)
    s = tt.cuda.Stream()
    s.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(s):
        add_kernel[4,](x, x, y, 1000, BLOCK=256)
    tt.cuda.current_stream().wait_stream(s)
    assert tt.equal(y, x + x)


def test_warmup_and_run():
    x = tt.rand(1000, device="cuda")
    y = tt.empty_like(x)
    add_kernel.warmup(tt.float32, tt.float32, tt.float32, 1000, BLOCK=256, grid=(1,))
    add_kernel.run(x, x, y, 1000, BLOCK=256, grid=(4,), warmup=False)
    assert tt.equal(y, x + x)


def test_an_array_of_another_library():

    class Foreign:
        def __init__(self, t):
            self.t = t

        @property
        def __cuda_array_interface__(self):
            return self.t.__cuda_array_interface__

    x = tt.rand(1000, device="cuda")
    y = tt.empty_like(x)
    f = tt.as_tensor(Foreign(x), device="cuda")
    add_kernel[4,](f, x, y, 1000, BLOCK=256)
    assert tt.equal(y, x + x)


def test_reinterpret():
    x = tt.arange(8, device="cuda", dtype=tt.int32)
    y = tt.empty_like(x)
    add_kernel[1,](triton.reinterpret(x, tl.int32), x, y, 8, BLOCK=8)
    assert tt.equal(y, x + x)


@gluon.jit
def copy(x, y, n, BLOCK: gl.constexpr):
    l: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=l)
    m = i < n
    gl.store(y + i, gl.load(x + i, mask=m), mask=m)


@pytest.mark.skipif(wants_interpreter(), reason="Triton's interpreter runs no Gluon kernel")
def test_gluon():
    x = tt.rand(500, device="cuda")
    y = tt.empty_like(x)
    copy[4,](x, y, 500, BLOCK=128, num_warps=4)
    assert tt.equal(x, y)


def test_operators_beside_them():
    tt.manual_seed(0)
    x = tt.randn(33, 40, device="cuda")
    host = x.cpu()
    assert 0.8 < float(host.std()) < 1.2
    for function in (tt.sin, tt.softmax, tt.matmul, tt.div):
        arguments = {tt.softmax: (1,), tt.matmul: (x.t(),), tt.div: (x + 9,)}.get(function, ())
        on_host = [each.cpu() if isinstance(each, tt.Tensor) else each for each in arguments]
        tt.testing.assert_close(function(x, *arguments).cpu(), function(host, *on_host), atol=1e-4, rtol=1e-4)
    rounded = tt.div(x, 0.3, rounding_mode="floor").cpu()
    tt.testing.assert_close(rounded, tt.div(host, 0.3, rounding_mode="floor"))


@triton.jit
def welford_and_softmax_kernel(x, mean, variance, total, last, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    means = tl.zeros([ROWS, COLUMNS], tl.float32)
    m2s = tl.zeros([ROWS, COLUMNS], tl.float32)
    weights = tl.zeros([ROWS, COLUMNS], tl.float32)
    maxima = tl.full([ROWS, COLUMNS], float("-inf"), tl.float32)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    selected = tl.zeros([ROWS], tl.float32)
    for start in range(0, n, COLUMNS):
        inside = start + columns < n
        value = tl.load(x + rows * n + start + columns, mask=inside, other=0.0)
        new = triton_helpers.welford_reduce(value, means, m2s, weights, start == 0)
        means, m2s = tl.where(inside, new[0], means), tl.where(inside, new[1], m2s)
        weights = tl.where(inside, new[2], weights)
        value = tl.where(inside, value, float("-inf"))
        maxima, sums = triton_helpers.online_softmax_combine(maxima, sums, value, False)
        is_last = tl.broadcast_to(start + columns == n - 1, [ROWS, COLUMNS])
        selected += tl.where(start + COLUMNS >= n, triton_helpers.select_one(value, is_last, 1), 0.0)
    row_mean, row_m2, row_weight = triton_helpers.welford(means, m2s, weights, 1)
    row_max, row_sum = triton_helpers.online_softmax_reduce(maxima, sums, 1, False)
    row = tl.arange(0, ROWS)
    tl.store(mean + row, row_mean)
    tl.store(variance + row, row_m2 / row_weight)
    tl.store(total + row, row_max + tl.log(row_sum))
    tl.store(last + row, triton_helpers.device_assert_then(row_weight == n, "all elements", selected))


def test_helpers_of_generated_kernels():
    x = tt.randn(4, 37, generator=tt.Generator().manual_seed(0)) * 3
    mean, variance, total, last = (tt.empty(4, device="cuda") for _ in range(4))
    welford_and_softmax_kernel[(1,)](x.to("cuda"), mean, variance, total, last, 37, ROWS=4, COLUMNS=16)
    tt.testing.assert_close(mean.cpu(), x.mean(1))
    tt.testing.assert_close(variance.cpu(), x.var(1, correction=0))
    tt.testing.assert_close(total.cpu(), x.logsumexp(1))
    assert last.tolist() == x[:, -1].tolist()


@triton.jit
def draw_kernel(out, low, high, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    drawn = triton_helpers.randint64(7, i, low.to(tl.int64), high.to(tl.int64))
    tl.store(out + i, drawn)


def test_random_integers_of_generated_kernels():
    out = tt.empty(256, dtype=tt.int64, device="cuda")
    draw_kernel[(1,)](out, -3, 5, BLOCK=256)
    assert set(out.tolist()) == set(range(-3, 5))


@triton.autotune(configs=[triton.Config({"BLOCK": 48}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 32 == 0, "BLOCK is a multiple of 32")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def test_the_autotuner_skips_configurations_that_fail_a_static_assertion():
    x = tt.randn(200, device="cuda")
    out = tt.empty_like(x)
    scale_kernel[lambda meta: (triton.cdiv(200, meta["BLOCK"]),)](x, out, 200)
    assert tt.equal(out, x + x) and scale_kernel.best_config.kwargs == {"BLOCK": 64}
    with pytest.raises(Exception, match="BLOCK is a multiple of 32"):
        scale_kernel.fn[(5,)](x, out, 200, BLOCK=48)
        tt.cuda.synchronize()
