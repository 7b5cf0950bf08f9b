"""Check of kernels with programmatic dependent launch: they must wait before they access memory.

A kernel with dependent launch may begin before the previous launch has ended.

Source: PTX ISA, ``griddepcontrol``: after ``griddepcontrol.wait``, the launches that a grid depends on have ended and
their stores are visible.
"""

from __future__ import annotations

import re

WAIT = "griddepcontrol.wait"
_ACCESS = re.compile(
    r"^\s*(?:@!?%p\d+\s+)?((?:ld|st|atom|red|cp\.async|cp\.reduce\.async|prefetch)\b(?!\.(?:param|shared))[\w.:]*)",
    re.M,
)
_BRANCH = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?:bra|brx|ret|exit)\b", re.M)


def early_access(ptx: str) -> str | None:
    """Return the first instruction that may access global memory before the wait, or None.

    Instructions after a branch that precedes the wait count as reachable without it.

    Example:
        >>> early_access("ld.global.b32 %r1, [%rd1];\\ngriddepcontrol.wait;\\nst.global.b32 [%rd1], %r1;")
        'ld.global.b32'
        >>> early_access("griddepcontrol.wait;\\nld.global.b32 %r1, [%rd1];") is None
        True
    """
    body = ptx[ptx.index("{", ptx.index(".entry")) :] if ".entry" in ptx else ptx
    before, wait, _ = body.partition(WAIT)
    access = _ACCESS.search(before)
    if access is not None:
        return access[1]
    if not wait or _BRANCH.search(before):
        # A branch before the wait may bypass it.
        behind = _ACCESS.search(body)
        return None if behind is None else behind[1]
    return None


def check_waits(name: str, ptx: str) -> None:
    """Raise RuntimeError for a kernel that accesses memory that an earlier launch may still write or read."""
    instruction = early_access(ptx)
    if instruction is not None:
        raise RuntimeError(
            f"kernel '{name}' is launched while the one before it may still run: expected {WAIT} before "
            f"all accesses to global memory, got {instruction} before it"
        )
