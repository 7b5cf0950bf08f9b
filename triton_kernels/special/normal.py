"""Error functions, the normal distribution and entropies."""

from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton

INFINITY = tl.constexpr(float("inf"))


@triton.jit
def erfinv(a):
    return libdevice.copysign(libdevice.erfinv(a), a)


@triton.jit
def erfcx(a):
    return libdevice.erfcx(a)


@triton.jit
def ndtri(a):
    return libdevice.normcdfinv(a)


@triton.jit
def log_ndtr(a):
    """Compute the log of the normal distribution function, by the scaled erfc where the function itself underflows."""
    t = a * 0.7071067811865476
    tail = libdevice.log(libdevice.erfcx(tl.where(a < -1.0, t, -1.0) * -1.0) * 0.5) - t * t
    return tl.where(a < -1.0, tail, libdevice.log1p(libdevice.erfc(t) * -0.5))


@triton.jit
def entr(a):
    """Compute -a log(a), with 0 at 0 and -inf below."""
    value = tl.where(a > 0.0, a * libdevice.log(a) * -1.0, tl.where(a == 0.0, 0.0, -INFINITY))
    return tl.where(a == a, value, a)


@triton.jit
def xlogy(a, b):
    """Compute a log(b), with 0 where a is 0, unless b is NaN."""
    return tl.where(b != b, b, tl.where(a == 0.0, 0.0, a * libdevice.log(b)))


@triton.jit
def xlog1py(a, b):
    """Compute a log(1 + b), with 0 where a is 0, unless b is NaN."""
    return tl.where(b != b, b, tl.where(a == 0.0, 0.0, a * libdevice.log1p(b)))
