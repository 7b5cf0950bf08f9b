"""Special functions: scalar functions by family, over the elementwise skeleton; `special` registers them.

They call libdevice if it has the function. The others are recurrences, asymptotic series and Chebyshev
series, whose coefficients were computed from their definitions in 40 digits. float32 takes fewer terms.
"""
