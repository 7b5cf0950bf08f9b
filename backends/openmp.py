"""OpenMP (`torch.backends.openmp`), which is not used here."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether kernels compute with it: none do."""
    return False
