"""Apple's GPUs (`torch.backends.mps`), for which there are no kernels here."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: no kernel runs on an MPS device."""
    return False


def is_built() -> bool:
    """Return False: there are no MPS kernels."""
    return False
