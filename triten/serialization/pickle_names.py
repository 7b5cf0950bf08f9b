"""The globals that a pickle names, read off its opcodes without running them."""

from __future__ import annotations

import pickletools
from pickle import UnpicklingError

from .allowed_globals import full_name

TEXT = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
PUT = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
GET = frozenset({"GET", "BINGET", "LONG_BINGET"})


def globals_in(data: bytes) -> list[str]:
    """Return the full names in the first pickle of `data`, in order; names that the pickle composes are missed.

    Raises:
        UnpicklingError: The pickle is malformed.
    """
    names: list[str] = []
    memo: dict[int, str | None] = {}
    # STACK_GLOBAL takes the two preceding strings, with at most memo opcodes between them.
    before: list[str | None] = [None, None]
    try:
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name in TEXT:
                before = [before[1], str(argument)]
            elif name in GET:
                before = [before[1], memo.get(int(argument or 0))]
            elif name in PUT:
                memo[int(argument or 0)] = before[1]
            elif name == "MEMOIZE":
                memo[len(memo)] = before[1]
            elif name in ("GLOBAL", "INST"):
                names.append(full_name(*str(argument).split(" ", 1)))
                before = [None, None]
            elif name == "STACK_GLOBAL":
                if before[0] is None or before[1] is None:
                    raise UnpicklingError("STACK_GLOBAL takes strings that the pickle composes")
                names.append(full_name(before[0], before[1]))
                before = [None, None]
            else:
                before = [None, None]
    except (ValueError, UnicodeDecodeError) as error:
        raise UnpicklingError(f"the pickle is malformed: {error}") from None
    return names
