"""A program for a process of its own: compiles the kernels of which it reads, a line of JSON for each, into the store.

``python -m triten.compiler.parallel.worker``. It says when it is ready, answers each line by one, ``{"error": null}``
or the error's text, and ends when its input does.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from ...runtime.cuda.triton.cubin_store import find_or_compile
from ..triton.source_files import module_of

READY = "ready\n"


def import_triton() -> None:
    """Import what compiles, which takes longer than most kernels do."""
    with contextlib.suppress(ImportError):  # the first kernel says it
        import triton.compiler  # noqa: F401


def compile_request(asked: dict[str, Any]) -> str | None:
    """Compile one kernel; the error's text, None for none."""
    try:
        find_or_compile(
            getattr(module_of(asked["text"]), asked["name"]),
            asked["signature"],
            asked["constexprs"],
            frozenset(asked["divisible"]),
            asked["capability"],
            asked["options"],
            asked["cuda"],
        )
    except Exception as error:  # whatever it is, the process that asks says it
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Answer until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a compiler prints is no answer
    import_triton()
    print(READY, end="", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps({"error": compile_request(json.loads(line))}), file=answers, flush=True)


if __name__ == "__main__":
    main()
