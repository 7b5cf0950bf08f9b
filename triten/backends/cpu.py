"""Capabilities of the host's processor (`torch.backends.cpu`)."""

from __future__ import annotations

from importlib import import_module

__all__ = ["get_cpu_capability"]


def instruction_sets() -> dict[str, bool]:
    """Return whether the processor has each instruction set that NumPy knows, by lower-case name."""
    features = import_module("numpy._core._multiarray_umath").__cpu_features__
    return {name.lower(): bool(is_supported) for name, is_supported in features.items()}


def get_cpu_capability() -> str:
    """Return the widest vector instruction set (`torch.backends.cpu.get_cpu_capability`).

    Returns:
        ``"AVX512"``, ``"AVX2"``, or ``"DEFAULT"`` for others.

    Example:
        >>> import triten as tt
        >>> tt.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
        True
    """
    supported = instruction_sets()
    if all(supported.get(name) for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl")) or supported.get(
        "avx512_skx"
    ):
        return "AVX512"
    return "AVX2" if supported.get("avx2") and supported.get("fma3") else "DEFAULT"
