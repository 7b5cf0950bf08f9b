"""Samples of matmuls that reach every matmul kernel and configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ...dispatch.structured.meta.block_scales import scale_count
from ...runtime.cuda.device_properties import design_of
from ...runtime.cuda.driver import driver
from ...triton_kernels.tuning.choice import make_plans_anew
from .sample import FLOATING, Sample, empty, tt

NARROW = ("bfloat16", "float16")
IN_GLUON = {90: "matmul_warp_specialized", 100: "matmul_tensor_memory"}
WIDE = ("matmul_persistent", "matmul_stream_k", *IN_GLUON.values(), "add_parts")


def products(capability: int) -> Iterator[Sample]:
    wide = WIDE if design_of(capability) >= 90 else ("matmul", "add_parts")
    for dtype in ("bfloat16", "float32", "float16", "float64", "int32", "int64", "int8", "int16", "uint8"):
        for n in (4096, 512):
            m = empty(n, n, dtype=dtype)
            held = wide if dtype in NARROW else ("matmul",) if dtype in FLOATING else ()
            yield Sample(f"mm {dtype} {n}", partial(tt.mm, m, m), held)
        v = empty(4096, dtype=dtype)
        large = empty(4096, 4096, dtype=dtype)
        if dtype in FLOATING:
            yield Sample(f"mm {dtype} transposed", partial(tt.mm, large.t(), large))
            yield Sample(f"mm {dtype} by transposed", partial(tt.mm, large, large.t()))
        if dtype in ("bfloat16", "float32", "int64"):
            yield Sample(f"addmm {dtype}", lambda v=v, m=large: tt.addmm(v, m, m, alpha=2, beta=3))
            yield Sample(f"dot {dtype}", lambda d=dtype: empty(1 << 22, dtype=d).dot(empty(1 << 22, dtype=d)))
        yield Sample(f"mv {dtype}", partial(tt.mv, empty(1 << 16, 4096, dtype=dtype), v), ("matvec",))
        yield Sample(f"mv {dtype} short rows", partial(tt.mv, empty(65536, 64, dtype=dtype), v[:64]))
        yield Sample(f"mv {dtype} transposed", partial(tt.mv, empty(4096, 1 << 16, dtype=dtype).t(), v))
    for dtype in ("bfloat16", "float16"):
        for m, k, n in ((4095, 4095, 4095), (333, 777, 555), (20001, 4095, 127), (100, 777, 99)):
            a, b = empty(m, k, dtype=dtype), empty(k, n, dtype=dtype)
            yield Sample(f"mm {dtype} of odd sizes, {m}", partial(tt.mm, a, b))
    for dtype in FLOATING:
        for n in (4096, 512):
            a, b = empty(n, n, dtype=dtype, offset=1), empty(n, n, dtype=dtype)
            yield Sample(f"mm {dtype} unaligned, {n}", partial(tt.mm, a, b))
    a, b = empty(8, 24, dtype="bfloat16"), empty(24, 40, dtype="bfloat16")
    yield Sample("mm bfloat16 of small sizes", partial(tt.mm, a, b))
    batch = empty(64, 512, 512, dtype="float16")
    yield Sample("baddbmm float16", lambda: tt.baddbmm(batch[0], batch, batch, beta=2))
    yield Sample("addbmm float16", lambda: tt.addbmm(batch[0], batch, batch))
    for dtype in ("bfloat16", "float16", "float32", "float64", "int8", "int64"):
        rows, keys = empty(512, 1, 128, dtype=dtype), empty(512, 4096, 128, dtype=dtype)
        # A token's attention: its scores over rows of keys, and values summed along the rows.
        yield Sample(f"bmm {dtype} of rows by transposed", partial(tt.bmm, rows, keys.mT))
        weights = empty(512, 1, 4096, dtype=dtype)
        yield Sample(f"bmm {dtype} of rows", partial(tt.bmm, weights, keys))
        long = empty(64, 1, 4096, dtype=dtype), empty(64, 4096, 4096, dtype=dtype)
        yield Sample(f"bmm {dtype} of long rows", partial(tt.bmm, long[0], long[1].mT), ("matvec",))
        yield Sample(f"bmm {dtype} of few rows", partial(tt.bmm, weights[:4], keys[:4]))
        added = empty(512, 1, 128, dtype=dtype)
        yield Sample(f"baddbmm {dtype} of rows", partial(tt.baddbmm, added, weights, keys, beta=2, alpha=3))
    yield Sample("addmv float32", lambda: tt.addmv(empty(4096), empty(4096, 4096), empty(4096), beta=2))

    yield from bulk_products(capability)


def bulk_products(capability: int) -> Iterator[Sample]:
    """Yield samples of every kernel with tensor descriptors, at every tile."""
    wide = WIDE if design_of(capability) >= 90 else ("matmul", "add_parts")
    for dtype in NARROW:
        for m, n, k in (
            (33792, 128, 4096),
            (2048, 2048, 512),
            (384, 4096, 4096),
            (384, 1024, 512),
            (16, 4096, 4096),
            (16, 1024, 4096),
            (2, 12288, 4096),
            (513, 5120, 5120),
        ):
            a, b = empty(m, k, dtype=dtype), empty(n, k, dtype=dtype)
            # Sums of 16 rows stay where HMMA leaves them, in pairs.
            held = wide if m > 16 or design_of(capability) >= 90 else ("add_parts",)
            yield Sample(f"mm {dtype} {m}x{n}x{k}", partial(tt.mm, a, b.t()), held)
        a, b = empty(16, 4096, dtype=dtype), empty(4096, 4096, dtype=dtype)
        yield Sample(f"mm {dtype} of 16 rows", partial(tt.mm, a, b))
        yield Sample(f"addmm {dtype} of 8 rows and a bias", partial(tt.addmm, b[0], a[:8], b))
        for m, n, k in ((4096, 4096, 4096), (384, 5000, 4096), (512, 512, 512), (512, 512, 8192)):
            a, b, c = empty(m, k, dtype=dtype), empty(k, n, dtype=dtype), empty(m, n, dtype=dtype)
            yield Sample(f"addmm {dtype} {m}x{n}x{k}", partial(tt.addmm, c, a, b, beta=2))
            held = ("matmul",) if m == n == 4096 else ()
            yield Sample(f"addmm {dtype} of a column {m}x{n}x{k}", partial(tt.addmm, c[:, :1], a, b), held)
        a, b = empty(4096, 4096, dtype=dtype), empty(50257, 4096, dtype=dtype)
        yield Sample(f"mm {dtype} to rows of odd length", partial(tt.mm, a, b.t()))
        yield Sample(f"mm {dtype} of transposed", partial(tt.mm, a.t(), a.t()))
        yield Sample(f"addmm {dtype} of a row", partial(tt.addmm, a[0], a, a))
    for dtype in (*NARROW, "float32"):
        a, b = empty(64, 8192, dtype=dtype), empty(128, 8192, dtype=dtype)
        yield Sample(f"mm {dtype} of a narrow result", partial(tt.mm, a, b.t()))
    if capability in IN_GLUON:
        yield from gluon_products(IN_GLUON[capability])
    yield from tf32_products(capability)
    yield from scaled_products(capability)


def without_gluon(call: Callable[[], object]) -> None:
    """Run matmuls in the Triton language, as under a Triton with an older Gluon."""
    owner = driver()
    owner.has_gluon = False
    make_plans_anew()
    call()
    owner.has_gluon = True
    make_plans_anew()


def gluon_products(kernel: str) -> Iterator[Sample]:
    """Yield warp-specialized matmuls with each epilogue, and the fallbacks without Gluon."""
    for dtype in NARROW:
        a = empty(4096, 4096, dtype=dtype)
        tall, narrow = empty(67584, 4096, dtype=dtype), empty(128, 4096, dtype=dtype)
        for label, left, right in (
            ("mm", a, a),
            ("mm of transposed", a.t(), a.t()),
            ("mm of a narrow result", tall, narrow.t()),
        ):
            call = partial(tt.mm, left, right)
            yield Sample(f"{label} {dtype}, many tiles", call, (kernel,))
            yield Sample(
                f"{label} {dtype}, without Gluon", partial(without_gluon, call), ("matmul_persistent",)
            )
        call = partial(tt.mm, empty(16, 8192, dtype=dtype), empty(8192, 8192, dtype=dtype).t())
        if kernel == IN_GLUON[90]:
            yield Sample(f"mm {dtype} of few rows", call, ("matmul_stream_k_specialized",))
        yield Sample(
            f"mm {dtype} of few rows, without Gluon", partial(without_gluon, call), ("matmul_stream_k",)
        )
        for gelu in (False, True):
            yield Sample(
                f"addmm {dtype} and {'gelu' if gelu else 'relu'}, many tiles",
                partial(tt.ops.aten._addmm_activation, a[0], a, a, use_gelu=gelu),
                (kernel,),
            )


def allowing_tf32(call: Callable[[], object]) -> None:
    """Call with float32 rounded on its way to the tensor cores."""
    tt.backends.cuda.matmul.allow_tf32 = True
    try:
        call()
    finally:
        tt.backends.cuda.matmul.allow_tf32 = False


def tf32_products(capability: int) -> Iterator[Sample]:
    """float32 rounded on its way to the tensor cores."""
    wide = WIDE[:-1] if design_of(capability) >= 90 else ("matmul",)
    large, medium, small = empty(8192, 4096), empty(1024, 1024), empty(512, 512)
    column, unaligned = empty(4096, 1), empty(4096, 4096, offset=1)
    for label, call, held in (
        ("mm tf32", partial(tt.mm, large, large.t()), wide),
        ("mm tf32 of rows", partial(tt.mm, large[:4096], large[:4096]), ()),
        ("mm tf32 transposed", partial(tt.mm, large.t(), large), ()),
        ("mm tf32 of few tiles", partial(tt.mm, medium, medium.t()), wide),
        ("mm tf32 of fewer tiles", partial(tt.mm, small, small.t()), wide),
        ("mm tf32 in parts", partial(tt.mm, large[:16], large.t()[:, :4096]), ()),
        ("addmm tf32", partial(tt.addmm, large[:4096], large[:4096], large[:4096]), ()),
        ("addmm tf32 of a column", partial(tt.addmm, column, large[:4096], large[:4096].t()), ()),
        ("mm tf32 unaligned, few tiles", partial(tt.mm, unaligned[:512, :512], small), ()),
        ("mm tf32 unaligned", partial(tt.mm, unaligned, large[:4096].t()), ()),
    ):
        yield Sample(label, partial(allowing_tf32, call), held)


def scaled_products(capability: int) -> Iterator[Sample]:
    """Yield samples of scaled matmuls of 8-bit floats, per tensor and per row; sm_80 refuses them."""
    unit_scale, refused = empty(1), capability < 89
    wide = () if refused else WIDE[:-1]
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        for m, n, k in (
            (8192, 8192, 4096),
            (1024, 4096, 4096),
            (512, 512, 512),
            (16, 4096, 4096),
            (16, 8192, 8192),
        ):
            a, b = empty(m, k, dtype=dtype), empty(n, k, dtype=dtype).t()
            for out, fast in (("bfloat16", True), ("bfloat16", False), ("float32", True), (dtype, True)):
                yield Sample(
                    f"_scaled_mm {dtype} {m}x{n}x{k} to {out}{', fast' if fast else ''}",
                    partial(
                        tt._scaled_mm,
                        a,
                        b,
                        unit_scale,
                        unit_scale,
                        out_dtype=getattr(tt, out),
                        use_fast_accum=fast,
                    ),
                    wide,
                    refused,
                )
            by_row = empty(m, 1), empty(1, n), empty(n, dtype="bfloat16")
            yield Sample(
                f"_scaled_mm {dtype} {m}x{n}x{k} by rows",
                partial(tt._scaled_mm, a, b, *by_row, out_dtype=tt.bfloat16, use_fast_accum=True),
                wide,
                refused,
            )
        yield from products_with_scales_by_blocks(dtype, refused)
        a = empty(4096, 4096, dtype=dtype, offset=1)
        call = partial(tt._scaled_mm, a, a.t(), unit_scale, unit_scale, out_dtype=tt.bfloat16)
        yield Sample(f"_scaled_mm {dtype} unaligned", call, (), refused)
    yield from products_with_block_scales(capability < 100)
    for n in (4096, 512):
        a = empty(n, 4096, dtype="int8")
        yield Sample(f"_int_mm {n}", partial(tt._int_mm, a, a.t()), ("int_matmul",))
        yield Sample(f"_int_mm of rows {n}", partial(tt._int_mm, a[:, :n], a))
        for out in (tt.float32, tt.bfloat16, tt.float16):
            call = partial(tt._scaled_int_mm, a, a.t(), empty(n), empty(n), out)
            yield Sample(f"_scaled_int_mm {n} to {out}", call, ("int_matmul",))
        offsets = empty(n, dtype="int32")
        for bias in (None, empty(n)):
            call = partial(tt._requantized_int_mm, a, a.t(), offsets, bias, empty(n), 3, 0)
            yield Sample(f"_requantized_int_mm {n}{'' if bias is None else ' with bias'}", call)
    for dtype in ("float32", "bfloat16", "float16"):
        for k in (1024, 4096):
            call = partial(tt._quantize_rows, empty(256, k, dtype=dtype), -127, 127.0)
            yield Sample(f"_quantize_rows {dtype} {k}", call, ("quantize_row",))
    a = empty(512, 4095, dtype="int8")
    yield Sample("_int_mm of odd lines", partial(tt._int_mm, a, a.t()))
    a = empty(4096, 4096, dtype="int8", offset=1)
    yield Sample("_int_mm unaligned", partial(tt._int_mm, a, a.t()))
    yield from weight_only_products(capability)
    yield from semi_structured_products()
    yield from grouped_products(capability)
    yield from complex_products(capability)


def products_with_scales_by_blocks(dtype: str, refused: bool) -> Iterator[Sample]:
    """Activations with a scale for 128 elements of a row, weights with one for 128 x 128."""
    held = () if refused else ("scaled_blocks_matmul",)
    for m in (8192, 512):
        a, b = empty(m, 4096, dtype=dtype), empty(2048, 4096, dtype=dtype).t()
        for columns in (16, 2048):
            call = partial(tt._scaled_mm, a, b, empty(m, 32), empty(32, columns), out_dtype=tt.bfloat16)
            yield Sample(f"_scaled_mm {dtype} {m} by blocks, {columns} columns", call, held, refused)
        call = partial(tt._scaled_mm, a, b, empty(m // 128, 32), empty(32, 2048), empty(2048))
        yield Sample(f"_scaled_mm {dtype} {m} by blocks of rows, with a bias", call, held, refused)
    a, b = empty(4096, 4096, dtype=dtype, offset=1), empty(2048, 4096, dtype=dtype).t()
    call = partial(tt._scaled_mm, a, b, empty(4096, 32), empty(32, 16), out_dtype=tt.bfloat16)
    yield Sample(f"_scaled_mm {dtype} by blocks, unaligned", call, (), refused)


def products_with_block_scales(refused: bool) -> Iterator[Sample]:
    """MXFP8, MXFP4 and NVFP4: a scale for 32 or 16 inner elements of either operand."""
    held = () if refused else ("block_scaled_matmul",)
    exponent, eight, four = "float8_e8m0fnu", "float8_e4m3fn", "float4_e2m1fn_x2"
    for left, right, scale, vector in (
        (eight, eight, exponent, 32),
        ("float8_e5m2", eight, exponent, 32),
        (four, four, exponent, 32),
        (four, four, eight, 16),
    ):
        packed = 2 if left == four else 1
        for n, k, unaligned in (
            (4096, 4096, False),
            (64, 4096, False),
            (4096, 1120, False),
            (4096, 4096, True),
        ):
            a = empty(4096, k // packed, dtype=left, offset=int(unaligned))
            b = empty(n, k // packed, dtype=right).t()
            counts = (scale_count(lines, k, vector) for lines in (4096, n))
            scales = tuple(empty(count, dtype=scale) for count in counts)
            label = f"_scaled_mm {left} {right} 4096x{n}x{k} by {vector}{', unaligned' if unaligned else ''}"
            call = partial(tt._scaled_mm, a, b, *scales, out_dtype=tt.bfloat16)
            yield Sample(label, call, () if unaligned else held, refused)
        bias = empty(n, dtype="bfloat16")
        if packed == 1:
            call = partial(tt._scaled_mm, a, b, *scales, bias, empty(1), tt.float8_e4m3fn)
            yield Sample(f"_scaled_mm {left} {right} by {vector} to 8 bits", call, (), refused)
        call = partial(tt._scaled_mm, a, b, *scales, bias, out_dtype=tt.float32)
        yield Sample(f"_scaled_mm {left} {right} by {vector} with a bias", call, (), refused)


def weight_only_products(capability: int) -> Iterator[Sample]:
    """Floating-point activations by weights of 8 and 4 bits, of one token, of some and of many."""
    for dtype in (*NARROW, "float32"):
        scales = empty(4096, dtype=dtype)
        for weight in ("int8", "float8_e5m2", "float8_e4m3fn"):
            refused = weight == "float8_e4m3fn" and capability < 89
            held = () if refused or dtype == "float32" else ("weight8_matmul", "weight8_stream_k")
            w, unaligned = empty(4096, 4096, dtype=weight), empty(4096, 4096, dtype=weight, offset=1)
            for m in (1, 512, 4096):
                x = empty(m, 4096, dtype=dtype)
                call = partial(tt._weight_int8pack_mm, x, w, scales)
                yield Sample(f"_weight_int8pack_mm {dtype} {weight} {m}", call, held, refused)
            many, x = empty(98304, 4096, dtype=weight), empty(1, 4096, dtype=dtype)
            call = partial(tt._weight_int8pack_mm, x, many, empty(98304, dtype=dtype))
            yield Sample(f"_weight_int8pack_mm {dtype} {weight} of many columns", call, held, refused)
            call = partial(tt._weight_int8pack_mm, x, unaligned, scales)
            yield Sample(f"_weight_int8pack_mm {dtype} {weight}, unaligned", call, (), refused)
    for dtype in NARROW:
        for group in (32, 128):
            for tiles in (2, 8):
                w = empty(512, 4096 // (16 * tiles), 32, tiles // 2, dtype="int32")
                numbers = empty(4096 // group, 4096, 2, dtype=dtype)
                for m in (1, 4096):
                    x = empty(m, 4096, dtype=dtype)
                    call = partial(tt._weight_int4pack_mm, x, w, group, numbers)
                    yield Sample(f"_weight_int4pack_mm {dtype} {m}, {group} of {tiles}", call)


def semi_structured_products() -> Iterator[Sample]:
    """Matrices of which two in four elements are kept, as a layer's weight and on the left."""
    held = ("semi_structured_matmul",)
    for dtype in (*NARROW, "int8", "float32"):
        values = empty(4096, 2048, dtype=dtype)
        wide, word = (128, "int32") if dtype == "int8" else (512 if dtype == "float32" else 256, "int16")
        words, bias = empty(4096, wide, dtype=word), empty(4096, dtype=dtype)
        for m in (1, 512, 4096):
            x = empty(m, 4096, dtype=dtype)
            call = partial(tt._sparse_semi_structured_linear, x, values, words, bias=bias)
            yield Sample(f"_sparse_semi_structured_linear {dtype} {m}", call, held)
            call = partial(tt._sparse_semi_structured_mm, values, words, x.t().contiguous())
            yield Sample(f"_sparse_semi_structured_mm {dtype} {m}", call, held if m > 1 else ())
            packed = empty(4096 * 4096 * (10 if dtype == "int8" else 9) // 16, dtype=dtype)
            call = partial(tt._cslt_sparse_mm, packed, x.t(), transpose_result=True)
            yield Sample(f"_cslt_sparse_mm {dtype} {m}", call, held)
        x = empty(512, 4096, dtype=dtype, offset=1)
        call = partial(tt._sparse_semi_structured_linear, x, values, words)
        yield Sample(f"_sparse_semi_structured_linear {dtype} unaligned", call)
    values, words = empty(4096, 2048, dtype="int8"), empty(4096, 128, dtype="int32")
    call = partial(
        tt._sparse_semi_structured_mm, values, words, empty(4096, 4096, dtype="int8"), out_dtype=tt.int32
    )
    yield Sample("_sparse_semi_structured_mm int8 in int32", call, held)


def grouped_products(capability: int) -> Iterator[Sample]:
    """Yield grouped matmuls over rows, columns and the K dimension, as in expert layers and their gradients."""
    for dtype in (*NARROW, "float32"):
        held = () if dtype == "float32" else ("grouped_matmul",)
        by_rows = ("grouped_matmul_bulk",) if held and capability >= 90 else held
        for total, groups in ((16384, 8), (512, 128)):
            rows, weights = empty(total, 2048, dtype=dtype), empty(groups, 1024, 2048, dtype=dtype)
            grads, ends = empty(total, 1024, dtype=dtype), empty(groups, dtype="int32")
            label = f"_grouped_mm {dtype}, {groups} groups"
            yield Sample(label, partial(tt._grouped_mm, rows, weights.mT, ends), by_rows)
            yield Sample(f"{label} of rows by rows", partial(tt._grouped_mm, grads, weights, ends), by_rows)
            # A group's columns begin anywhere in a line, so its results are stored one by one.
            yield Sample(f"{label} of columns", partial(tt._grouped_mm, weights, rows.t(), ends))
            yield Sample(
                f"{label} along the inner side", partial(tt._grouped_mm, grads.t(), rows, ends), held
            )
            unaligned = empty(total, 2048, dtype=dtype, offset=1)
            yield Sample(f"{label}, unaligned", partial(tt._grouped_mm, unaligned, weights.mT, ends))
            if dtype == "float32":
                call = partial(tt._grouped_mm, rows, weights.mT, ends)
                yield Sample(f"{label}, tf32", partial(allowing_tf32, call))
    refused = capability < 89
    held = () if refused else ("grouped_matmul_bulk",)
    for total, groups in ((16384, 8), (512, 128)):
        rows = empty(total, 2048, dtype="float8_e4m3fn")
        weights, ends = empty(groups, 1024, 2048, dtype="float8_e4m3fn").mT, empty(groups, dtype="int32")
        by_row, by_column = empty(total), empty(groups, 1024)
        for fast in (False, True):
            yield Sample(
                f"_scaled_grouped_mm, {groups} groups{', fast' if fast else ''}",
                partial(tt._scaled_grouped_mm, rows, weights, by_row, by_column, ends, use_fast_accum=fast),
                held,
                refused,
            )
        unaligned = empty(total, 2048, dtype="float8_e4m3fn", offset=1)
        call = partial(tt._scaled_grouped_mm, unaligned, weights, by_row, by_column, ends)
        yield Sample(f"_scaled_grouped_mm, {groups} groups, unaligned", call, (), refused)
        left, right = empty(1024, total, dtype="float8_e4m3fn"), empty(2048, total, dtype="float8_e4m3fn").t()
        yield Sample(
            f"_scaled_grouped_mm, {groups} groups along the inner side",
            partial(tt._scaled_grouped_mm, left, right, empty(groups * 1024), empty(groups * 2048), ends),
            (),
            refused,
        )


def complex_products(capability: int) -> Iterator[Sample]:
    for dtype in ("complex64", "complex128"):
        a = empty(2048, 2048, dtype=dtype)
        yield Sample(f"mm {dtype}", partial(tt.mm, a, a))
        yield Sample(f"mm {dtype} transposed", partial(tt.mm, a.t(), a.t()))
        yield Sample(f"addmm {dtype}", partial(tt.addmm, a[0], a, a, beta=2j, alpha=3))
        yield Sample(f"vdot {dtype}", partial(tt.vdot, a[0], a[1]))
