"""Special functions: scalar functions by family, over the elementwise skeleton; `special` registers them.

Where libdevice has a function it is that; the others are recurrences, asymptotic series and series of Chebyshev
polynomials, whose coefficients were computed from their definitions in 40 digits. float32 takes fewer terms.
"""
