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
from ...runtime.cuda.triton.kernel_key import KernelRequest
from ..triton.source_files import module_of

READY = "ready\n"


def import_triton() -> None:
    """Import the compiler, which takes longer than most kernels take to compile."""
    with contextlib.suppress(ImportError):  # the first kernel says it
        from triton import compiler  # noqa: F401


def request_of(message: dict[str, Any]) -> KernelRequest:
    """Return the kernel of another process's request, from its text."""
    return KernelRequest(
        kernel=getattr(module_of(message["text"]), message["name"]),
        signature=message["signature"],
        constexprs=message["constexprs"],
        divisible=frozenset(message["divisible"]),
        capability=message["capability"],
        options=message["options"],
    )


def compile_request(request: KernelRequest, cuda: int) -> str | None:
    """Compile one kernel; the error's text, None for none."""
    try:
        find_or_compile(*request, cuda)
    except Exception as error:  # whatever it is, the process that asks says it
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Answer until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # output of a compiler must not mix with answers
    import_triton()
    print(READY, end="", file=answers, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        error = compile_request(request_of(message), message["cuda"])
        print(json.dumps({"error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()
