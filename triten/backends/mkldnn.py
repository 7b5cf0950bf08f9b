"""oneDNN (`torch.backends.mkldnn`), which is not used here."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: no kernel uses oneDNN."""
    return False
