"""How plans print times."""


def shown_seconds(seconds: float) -> str:
    """Seconds from one on, milliseconds below.

    Example:
        >>> from triten.perf.planning.shown import shown_seconds
        >>> shown_seconds(1.5), shown_seconds(0.0015)
        ('1.500 s', '1.500 ms')
    """
    return f"{seconds:.3f} s" if seconds >= 1 else f"{1e3 * seconds:.3f} ms"
