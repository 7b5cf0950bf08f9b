"""Apple's GPUs (`torch.backends.mps`), for which there are no kernels here."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Whether there is such a GPU: never one that could be used."""
    return False


def is_built() -> bool:
    """Whether there are kernels for one: none."""
    return False
