"""OpenMP (`torch.backends.openmp`), which is not used here."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: no kernel uses OpenMP."""
    return False
