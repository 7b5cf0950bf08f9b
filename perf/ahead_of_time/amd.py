"""Kernels compiled for AMD's GPUs: which of them Triton's backend takes. Nothing runs, and no driver exists.

A launch that was recorded for `PLANNED_FOR` is compiled with its own configuration for an AMD target. Compilations
run in a worker process, since the backend may abort; a new process continues after the request that ended it.

    python -m triten.perf aot --quick --target gfx942
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .compilation import compiling_environment
from .request import Request, decode, find

PLANNED_FOR = 80
"""Launches without tensor maps, which only NVIDIA's newer targets have."""
WAVES = {"gfx942": 64, "gfx1100": 32}
"""Threads of a wavefront, by target."""
NVIDIA_ONLY = ("enable_reflect_ftz",)
"""Options that the AMD backend does not have."""


@dataclass(frozen=True)
class Compiled:
    """Result for a kernel on a target; `error` is empty if it compiled."""

    kernel: str
    target: str
    error: str = ""


def compile_for(request: Request, target: str) -> None:
    """Compile a request for an AMD target.

    Raises:
        Exception: whatever the compiler raises.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ...runtime.cuda.triton.real_triton import real, real_constants

    kernel = real(find(request.kernel))
    constexprs = real_constants({name: decode(value) for name, value in request.constants.items()})
    names = kernel.arg_names
    signature = {name: request.signature.get(name, "constexpr") for name in names}
    constants = {(i,): constexprs[name] for i, name in enumerate(names) if name in constexprs}
    divisible = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in request.divisible}
    options = {name: value for name, value in request.options.items() if name not in NVIDIA_ONLY}
    source = ASTSource(kernel, signature, constants, divisible)
    triton.compile(source, target=GPUTarget("hip", target, WAVES[target]), options=options)


def compile_all(requests: Sequence[Request], target: str) -> Iterator[Compiled]:
    """Compile requests in order; yield each result."""
    lines = [json.dumps(asdict(request)) for request in requests]
    done = 0
    while done < len(lines):
        command = [sys.executable, "-P", "-m", f"{__package__}.amd", target]
        worker = subprocess.run(
            command,
            input="\n".join(lines[done:]),
            env=compiling_environment(),
            capture_output=True,
            text=True,
        )
        answers = [line for line in worker.stdout.splitlines() if line.startswith("{")]
        for line in answers:
            yield Compiled(**json.loads(line))
        done += len(answers)
        if done < len(lines):
            last = [line for line in worker.stderr.splitlines() if line.strip()][-1:]
            error = f"the compiler ended the process with status {worker.returncode}: {''.join(last)}"
            yield Compiled(requests[done].kernel, target, error[:300])
            done += 1


def table(results: Sequence[Compiled]) -> str:
    """Format the number of kernels that compile, and the errors of the others."""
    lines = []
    for target in dict.fromkeys(result.target for result in results):
        mine = [result for result in results if result.target == target]
        failed = [result for result in mine if result.error]
        lines.append(f"{target}: {len(mine) - len(failed)} of {len(mine)} kernels compile; none has run")
        lines += [f"  {result.kernel.rpartition(':')[2]}: {result.error}" for result in failed]
    return "\n".join(lines)


def answer(line: str, target: str) -> dict[str, Any]:
    """Compile a request and describe the result."""
    request = Request(**json.loads(line))
    error = ""
    try:
        compile_for(request, target)
    except Exception as raised:  # a backend raises whatever its passes raise
        reason: BaseException = raised
        while reason.__cause__ is not None:  # a CompilationError shows the source, its cause the reason
            reason = reason.__cause__
        text = [each.strip() for each in str(reason).splitlines() if each.strip(" ^")] or [""]
        error = f"{type(reason).__name__}: {text[-1]}"[:300]
    return asdict(Compiled(request.kernel, target, error))


if __name__ == "__main__":
    for each in sys.stdin:
        print(json.dumps(answer(each, sys.argv[1])), flush=True)
