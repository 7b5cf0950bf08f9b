"""cuSPARSELt (`torch.backends.cusparselt`), which is not used here."""

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """Return False: no kernel uses cuSPARSELt."""
    return False


def version() -> None:
    """Return None: triten does not use cuSPARSELt."""
    return None


def get_max_alg_id() -> None:
    """Return None: there is no algorithm to choose."""
    return None
