"""Remote procedure calls (`torch.distributed.rpc`), of which there are none."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: there are no remote procedure calls.

    Example:
        >>> from triten.distributed import rpc
        >>> rpc.is_available()
        False
    """
    return False
