"""Series of Chebyshev polynomials by Clenshaw's recurrence.

Source: C. W. Clenshaw, "A note on the summation of Chebyshev series" (1955).
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton


@triton.jit
def chebyshev_series(t, SERIES: tl.constexpr, COUNT: tl.constexpr):
    """Return the sum of SERIES[k] T_k(t) over the first COUNT coefficients, for t in [-1, 1]."""
    after = t * 0.0
    later = after
    for k in tl.static_range(COUNT - 1):
        now = 2.0 * t * after - later + SERIES[COUNT - 1 - k]
        later = after
        after = now
    return t * after - later + SERIES[0]
