"""Products that no table of dtypes and letters reaches: 8-bit floats with scales, and tensors beyond 2^31 elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import triten as tt

from .first_checks import NeedsACard, check, fresh_numbers, is_rehearsal, require, some_of

UNIT = {
    tt.float32: 2.0**-24,
    tt.float16: 2.0**-11,
    tt.bfloat16: 2.0**-8,
    tt.float8_e4m3fn: 2.0**-4,
    tt.float8_e5m2: 2.0**-3,
}
LOST = 2.0**-11
"""Of the sum of the terms' sizes: the tensor cores of sm_90 align the products of 8-bit floats to the largest of 32 and
to the sum so far, keep 14 bits of each and cut the rest, so that the cuts of a row add up."""
FAR = 2**31 + 16
"""Elements between two lines: an offset that 32 bits do not hold."""


def free_memory() -> int:
    """Return the free device memory in bytes."""
    return int(tt.cuda.mem_get_info()[0])


def needs_memory(nbytes: int) -> None:
    """Raise unless so many bytes are free."""
    if free_memory() < nbytes:
        raise NeedsACard(f"it needs {nbytes >> 30} GiB, {free_memory() >> 30} are free")


def drawn(rng: np.random.Generator, dtype: tt.dtype, *sizes: int) -> tuple[Any, Any]:
    """Return normal random numbers of a dtype on the device, and their values in float64."""
    host = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(dtype)
    return host.to("cuda"), host.to(tt.float64).numpy()


@check("products: 8-bit floats with scales agree with float64")
def scaled_products() -> str:
    if tt.cuda.get_device_capability() < (8, 9):
        raise NeedsACard("8-bit floats need compute capability 8.9 or later")
    rng, checked = fresh_numbers(), 0
    sizes = (
        [(48, 64, 32), (17, 160, 48)]
        if is_rehearsal()
        else [(1024, 4096, 512), (333, 1136, 272), (8, 4096, 4096)]
    )
    for element in (tt.float8_e4m3fn, tt.float8_e5m2):
        for m, k, n in sizes:
            (a, x), (b, y) = drawn(rng, element, m, k), drawn(rng, tt.float8_e4m3fn, n, k)
            (bias, z) = drawn(rng, tt.bfloat16, n)
            for by_row in (False, True):
                (s, u), (t, v) = (
                    drawn(rng, tt.float32, *one) for one in (((m, 1), (1, n)) if by_row else ((), ()))
                )
                s, u, t, v = s.abs(), np.abs(u), t.abs(), np.abs(v)
                exact, magnitude = (x @ y.T) * (u * v), (np.abs(x) @ np.abs(y.T)) * (u * v)
                for out, fast in ((tt.bfloat16, False), (tt.bfloat16, True), (tt.float32, False)):
                    added = None if out is tt.float32 else bias
                    got = tt._scaled_mm(a, b.t(), s, t, bias=added, out_dtype=out, use_fast_accum=fast)
                    expected = exact if added is None else exact + z
                    allowed = LOST * (magnitude + np.abs(expected)) + UNIT[out] * np.abs(expected)
                    error = np.abs(got.cpu().to(tt.float64).numpy() - expected)
                    require(
                        bool((error <= allowed).all()),
                        f"{element}, {m}x{n}x{k} to {out}, {'by rows' if by_row else 'whole'}, fast {fast}: "
                        f"{int((error > allowed).sum())} of {error.size} elements are wrong, {error.max():.3g} apart",
                    )
                    checked += 1
    return f"{checked} products"


@check("products: 8-bit floats with scales by blocks, and in groups, agree with float64")
def products_with_scales_of_parts() -> str:
    if tt.cuda.get_device_capability() < (8, 9):
        raise NeedsACard("8-bit floats need compute capability 8.9 or later")
    rng, checked = fresh_numbers(), 0
    element = tt.float8_e4m3fn
    for m, k, n in [(72, 272, 48)] if is_rehearsal() else [(1024, 4096, 512), (333, 1136, 272)]:
        (a, x), (b, y) = drawn(rng, element, m, k), drawn(rng, element, n, k)
        for rows, columns in ((1, 1), (1, 128), (128, 1)):
            (s, u), (t, v) = (
                drawn(rng, tt.float32, -(-lines // shared), -(-k // 128))
                for lines, shared in ((m, rows), (n, columns))
            )
            u, v = (
                np.abs(values).repeat(shared, 0)[:lines].repeat(128, 1)[:, :k]
                for values, shared, lines in ((u, rows, m), (v, columns, n))
            )
            got = tt._scaled_mm(a, b.t(), s.abs(), t.abs().t(), out_dtype=tt.float32)
            check_8_bits(
                got, (x * u) @ (y * v).T, np.abs(x * u) @ np.abs(y * v).T, f"blocks of {rows}, {columns}"
            )
            checked += 1
        (w, z), (s, u), (t, v) = (
            drawn(rng, element, 2, n, k),
            drawn(rng, tt.float32, m),
            drawn(rng, tt.float32, 2, n),
        )
        first = m // 3
        offs = tt.tensor([first, m], dtype=tt.int32, device="cuda")
        got = tt._scaled_grouped_mm(a, w.mT, s, t, offs=offs)
        parts = [
            (x[part] * u[part, None], z[g] * v[g][:, None])
            for g, part in enumerate((slice(first), slice(first, m)))
        ]
        exact, magnitude = (
            np.concatenate([p @ q.T for p, q in pairs])
            for pairs in (parts, [(np.abs(p), np.abs(q)) for p, q in parts])
        )
        check_8_bits(got, exact, magnitude, "groups of rows")
        checked += 1
    return f"{checked} products"


def check_8_bits(got: Any, exact: np.ndarray, magnitude: np.ndarray, label: str) -> None:
    """Compare a result with the precision that the tensor cores of sm_90 keep."""
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    allowed = LOST * magnitude + UNIT[got.dtype] * np.abs(exact)
    require(
        bool((error <= allowed).all()),
        f"{label}: {int((error > allowed).sum())} of {error.size} elements are wrong, {error.max():.3g} apart",
    )


@check("products: floats of 8 and 4 bits with scales of 32 and 16 elements agree with float64")
def products_with_scales_of_blocks() -> str:
    if tt.cuda.get_device_capability() < (10, 0):
        raise NeedsACard("scales of blocks need compute capability 10.0 or later")
    from triten.quantization import MXTensor, NVFP4Tensor

    rng, checked = fresh_numbers(), 0
    for m, k, n in [(40, 96, 48)] if is_rehearsal() else [(1024, 4096, 512), (333, 1120, 272)]:
        for make in (
            lambda rows: MXTensor.from_float(rows, tt.float8_e4m3fn, tt.float8_e4m3fn),
            lambda rows: MXTensor.from_float(rows, tt.float4_e2m1fn_x2, tt.float4_e2m1fn_x2),
            lambda rows: NVFP4Tensor.from_float(rows, dynamic=True, two_levels=False),
        ):
            (a, _), (b, _) = drawn(rng, tt.float32, m, k), drawn(rng, tt.float32, n, k)
            left, right = make(a), make(b)
            got = tt._scaled_mm(left.qdata, right.qdata.t(), left.scale, right.scale, out_dtype=tt.float32)
            x, y = (each.dequantize().cpu().to(tt.float64).numpy() for each in (left, right))
            check_8_bits(got, x @ y.T, np.abs(x) @ np.abs(y).T, f"{type(left).__name__}, {m}x{n}x{k}")
            checked += 1
    return f"{checked} products"


@check("products: 8-bit integers are exact in int32")
def products_of_integers() -> str:
    rng, checked = fresh_numbers(), 0
    sizes = (
        [(40, 96, 72), (17, 33, 5)]
        if is_rehearsal()
        else [(1024, 4096, 2048), (333, 1135, 271), (1, 8192, 7)]
    )
    for m, k, n in sizes:
        x, y = (rng.integers(-128, 128, size).astype(np.int8) for size in ((m, k), (n, k)))
        a, b = (tt.from_numpy(values).to("cuda") for values in (x, y))
        exact = x.astype(np.float64) @ y.T.astype(np.float64)
        for label, right in (("by columns", b.t()), ("by rows", b.t().contiguous())):
            wrong = int((tt._int_mm(a, right).cpu().numpy() != exact).sum())
            require(not wrong, f"{m}x{k}x{n}, {label}: {wrong} of {exact.size} elements are wrong")
            checked += 1
    return f"{checked} products"


@check("products: rows of 8-bit integers and their scales are those of the CPU")
def scaled_products_of_integers() -> str:
    rng, checked = fresh_numbers(), 0
    sizes = (
        [(40, 96, 72), (3, 33, 5)] if is_rehearsal() else [(1024, 4096, 2048), (333, 1135, 271), (1, 8192, 7)]
    )
    for dtype in (tt.bfloat16, tt.float16, tt.float32):
        for m, k, n in sizes:
            a, _ = drawn(rng, dtype, m, k)
            b, _ = drawn(rng, dtype, n, k)
            results = []
            for device in ("cuda", "cpu"):
                rows, by_row = tt._quantize_rows(a.to(device), -127, 127.0)
                columns, by_column = tt._quantize_rows(b.to(device), -128, 127.5)
                made = tt._scaled_int_mm(rows, columns.t(), by_row, by_column, dtype)
                offsets = tt.arange(n, dtype=tt.int32, device=device)
                on_grid = tt._requantized_int_mm(rows, columns.t(), offsets, by_column, by_column, 97, 3)
                results.append((rows.cpu(), by_row.cpu(), made.cpu(), on_grid.cpu()))
            for what, ours, theirs in zip(
                ("integers", "scales", "products", "products on a grid"), *results, strict=True
            ):
                require(bool(ours.equal(theirs)), f"{dtype} {m}x{k}x{n}: {what} differ from the CPU's")
                checked += 1
    return f"{checked} tensors"


@check("products: weights of 8 and 4 bits agree with float64")
def products_with_narrow_weights() -> str:
    rng, checked = fresh_numbers(), 0
    sizes = (
        [(3, 128, 40), (3, 1024, 520)]
        if is_rehearsal()
        else [(1, 4096, 4096), (333, 2048, 1024), (2048, 4096, 512)]
    )
    eight = [tt.int8, tt.float8_e5m2]
    if tt.cuda.get_device_capability() >= (8, 9):
        eight.append(tt.float8_e4m3fn)
    for dtype in some_of((tt.bfloat16, tt.float16, tt.float32), tt.float16):
        for m, k, n in sizes:
            a, x = drawn(rng, dtype, m, k)
            s, u = drawn(rng, dtype, n)
            s = s / 16  # so that float16 holds the sums
            u = s.cpu().double().numpy()
            for kind in eight:
                w = tt.from_numpy(rng.integers(-127, 128, (n, k)).astype(np.int8)).to(kind)
                y = w.double().numpy() * u[:, None]
                got = tt._weight_int8pack_mm(a, w.to("cuda"), s)
                check_rounded(got, x, y, dtype, f"{kind}, {m}x{n}x{k} {dtype}")
                checked += 1
            if dtype is tt.float32:
                continue
            for tiles, group in ((2, 32), (8, 128)):
                integers = rng.integers(0, 16, (n, k)).astype(np.uint8)
                pairs = tt.from_numpy(integers[:, ::2] << 4 | integers[:, 1::2]).to("cuda")
                packed = tt._convert_weight_to_int4pack(pairs, tiles)
                numbers, z = drawn(rng, dtype, k // group, n, 2)
                scale, zero = (z.repeat(group, 0)[..., i].T for i in (0, 1))
                y = (integers.astype(np.float64) - 8) * scale + zero
                got = tt._weight_int4pack_mm(a, packed, group, numbers)
                check_rounded(got, x, y, dtype, f"4 bits, {m}x{n}x{k} {dtype}, groups of {group}")
                checked += 1
    return f"{checked} products"


@check("products: matrices of which two in four are kept agree with float64")
def semi_structured_products() -> str:
    rng, checked = fresh_numbers(), 0
    sizes = [(3, 64, 256)] if is_rehearsal() else [(1, 4096, 4096), (333, 1024, 2048), (2048, 4096, 512)]
    for dtype in some_of((tt.bfloat16, tt.float16, tt.float32, tt.int8), tt.float16):
        for m, n, k in sizes:
            each = 2 if dtype is tt.float32 else 4
            kept = np.argsort(rng.random((n, k // each, each)), -1) < each // 2
            y = (rng.integers(-9, 10, kept.shape) * kept).reshape(n, k).astype(np.float64)
            x = rng.integers(-9, 10, (m, k)).astype(np.float64)
            a, w = (tt.from_numpy(values).to("cuda", dtype) for values in (x, y))
            exact = x @ y.T
            expected = tt.from_numpy(np.clip(exact, -128, 127) if dtype is tt.int8 else exact).to(dtype)
            values, meta = tt._to_sparse_semi_structured(w)
            packed = tt._cslt_compress(w)
            for way, got in (
                ("a layer", tt._sparse_semi_structured_linear(a, values, meta)),
                ("on the left", tt._sparse_semi_structured_mm(values, meta, a.t().contiguous()).t()),
                ("one tensor", tt._cslt_sparse_mm(packed, a.t(), transpose_result=True)),
            ):
                wrong = int((got.cpu() != expected).sum())
                require(not wrong, f"{m}x{n}x{k} {dtype}, {way}: {wrong} of {exact.size} elements are wrong")
                checked += 1
            if dtype is tt.float16:
                tiles = tt._sparse_semi_structured_tile(w)
                host = tt._sparse_semi_structured_tile(w.cpu())
                require(
                    all((g.cpu() == h).all() for g, h in zip(tiles, host, strict=True)), f"tiles of {n}x{k}"
                )
    return f"{checked} products"


def check_rounded(got: Any, x: np.ndarray, y: np.ndarray, dtype: Any, label: str) -> None:
    """Compare a matmul with a rounded weight and float32 sums."""
    exact, magnitude = x @ y.T, np.abs(x) @ np.abs(y).T
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    unit = UNIT[dtype]
    allowed = (unit + 2.0**-20) * magnitude + unit * np.abs(exact)
    require(
        bool((error <= allowed).all()),
        f"{label}: {int((error > allowed).sum())} of {error.size} elements are wrong, {error.max():.3g} apart",
    )


@check("products: groups of rows, columns and inner elements agree with float64")
def grouped_products() -> str:
    rng, checked = fresh_numbers(), 0
    total, m, n, k = (72, 40, 48, 64) if is_rehearsal() else (4096, 1024, 768, 2048)
    for dtype in some_of((tt.bfloat16, tt.float16, tt.float32)):
        (a, x), (b, y) = drawn(rng, dtype, total, k), drawn(rng, dtype, 3, n, k)
        (c, z), (d, w) = drawn(rng, dtype, m, total), drawn(rng, dtype, total, n)
        for ends in ([total // 4, total // 2, total], [5, 5, total - 9]):
            offs = tt.tensor(ends, dtype=tt.int32, device="cuda")
            parts = [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]
            rows, inner = np.zeros((2, total, n)), np.zeros((2, 3, m, n))
            for values, (p, q, r, s) in zip(
                (0, 1), ((x, y, z, w), tuple(map(np.abs, (x, y, z, w)))), strict=True
            ):
                for g, part in enumerate(parts):
                    rows[values, part] = p[part] @ q[g].T
                    inner[values, g] = r[:, part] @ s[part]
            for label, got, (expected, magnitude) in (
                ("rows", tt._grouped_mm(a, b.mT, offs=offs), rows),
                ("columns", tt._grouped_mm(b, a.t(), offs=offs).t(), rows),
                ("inner", tt._grouped_mm(c, d, offs=offs), inner),
            ):
                unit = 2.0**-11 if dtype is tt.float16 else UNIT[dtype]
                error = np.abs(got.cpu().to(tt.float64).numpy() - expected)
                allowed = unit * np.abs(expected) + 2.0**-22 * max(total, k) * magnitude
                require(
                    bool((error <= allowed).all()),
                    f"{dtype}, {label}, groups end at {ends}: {int((error > allowed).sum())} of {error.size} elements "
                    f"are wrong, {error.max():.3g} apart",
                )
                checked += 1
    return f"{checked} products"


@check("products: operands and results whose offsets 32 bits do not hold", on_a_card=True)
def far_apart() -> str:
    needs_memory(3 * 2**30 + 2**29)
    rng = fresh_numbers()
    memory = tt.empty(FAR + 4096, dtype=tt.int8, device="cuda")
    x, y = (rng.integers(-5, 5, sizes).astype(np.int8) for sizes in ((2, 40), (40, 24)))
    a, b = (tt.from_numpy(values).to("cuda") for values in (x, y))
    far = memory.as_strided((2, 40), (FAR, 1))
    far.copy_(a)
    exact = (x.astype(np.int64) @ y.astype(np.int64)).astype(np.int8)
    require(np.array_equal(tt.mm(far, b).cpu().numpy(), exact), "mm: a left operand of rows far apart")
    require(np.array_equal(tt.mv(far, b[:, 3]).cpu().numpy(), exact[:, 3]), "mv: rows far apart")
    require(
        np.array_equal(tt.mm(b.t(), far.t()).cpu().numpy(), exact.T),
        "mm: a right operand of columns far apart",
    )
    batch = memory.as_strided((2, 1, 40), (FAR, 40, 1))
    twice = b.expand(2, 40, 24).contiguous()
    require(np.array_equal(tt.bmm(batch, twice).cpu().numpy()[:, 0], exact), "bmm: batches far apart")
    out = memory.as_strided((2, 24), (FAR, 1), 1024)
    tt.mm(a, b, out=out)
    require(np.array_equal(out.cpu().numpy(), exact), "mm: a result of rows far apart")
    half = memory[: FAR + 4080].view(tt.float16).as_strided((2, 32), (FAR // 2, 1))
    (p, u), (q, v) = drawn(rng, tt.float16, 2, 32), drawn(rng, tt.float16, 32, 16)
    half.copy_(p)
    error = np.abs(tt.mm(half, q).cpu().to(tt.float64).numpy() - u @ v)
    require(
        bool((error <= 2.0**-9 * (np.abs(u) @ np.abs(v))).all()),
        f"mm: float16 rows far apart: {error.max():.3g}",
    )
    return f"rows {FAR:,} bytes apart"


@check("products: more than 2^31 elements", on_a_card=True)
def many_elements() -> str:
    """Check a matrix, a vector and a result that each exceed 32-bit indexing."""
    needs_memory(14 * 2**30)
    m = 2**31 + 160
    column = tt.ones(m, 1, dtype=tt.int8, device="cuda")
    column[-1] = 3
    column[5] = 2
    two = tt.full((1,), 2, dtype=tt.int8, device="cuda")
    got = tt.mv(column, two)
    require(
        got[-1].item() == 6 and got[5].item() == 4 and got[2**31 - 1].item() == 2,
        "mv: a result of 2^31 + 160",
    )
    del got
    wide = tt.mm(column, two.view(1, 1))
    require(wide[-1, 0].item() == 6 and wide[5, 0].item() == 4, "mm: a column of 2^31 + 160")
    del wide
    total = tt.mm(column.t(), column)
    require(total.item() == (m - 2 + 4 + 9 + 128) % 256 - 128, "mm: an inner side of 2^31 + 160")
    del column
    a, b = (
        tt.ones(2**16 + 16, 16, dtype=tt.int8, device="cuda"),
        tt.ones(16, 2**15 + 16, dtype=tt.int8, device="cuda"),
    )
    a[-1], b[:, -1] = 3, 2
    square = tt.mm(a, b)
    require([square[i, j].item() for i, j in ((0, 0), (-1, 0), (0, -1), (-1, -1))] == [16, 48, 32, 96],
            "mm: a result of 2^31 elements and more")  # fmt: skip
    return f"{m:,} rows, and {square.numel():,} elements"
