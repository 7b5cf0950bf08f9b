"""LLVM through llvmlite: the processor that code is made for, and the object code of a text.

LLVM aborts its process when an allocation fails. Therefore this module is also a program, for a process of its own. It
imports nothing of this package:

- ``python llvm_compiler.py processor`` writes `processor` as JSON;
- ``python llvm_compiler.py compile`` and ``python llvm_compiler.py optimize`` read a text and write its object code.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any


@cache
def _initialized() -> Any:
    """Return llvmlite's interface to LLVM, ready to make code for this processor."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def processor() -> dict[str, Any]:
    """Return this processor's name and features, and a key of all versions that object code depends on."""
    from llvmlite import __version__

    binding = _initialized()
    features = binding.get_host_cpu_features()
    name, flags = binding.get_host_cpu_name(), features.flatten()
    key = f"{__version__} {binding.llvm_version_info} {binding.get_process_triple()} {name} {flags}"
    present = sorted(each for each, is_there in features.items() if is_there)
    return {"key": key, "name": name, "features": present}


def target_machine() -> Any:
    """Return a new target machine of LLVM for this processor; an engine takes it over, and frees it."""
    binding = _initialized()
    name, flags = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    triple = binding.Target.from_default_triple()
    return triple.create_target_machine(cpu=name, features=flags, opt=3, jit=True)


def compile_text(text: str, optimizes: bool) -> bytes:
    """Return the object code of a text, optimized as C is at ``-O3`` if at all."""
    binding = _initialized()
    machine, module = target_machine(), binding.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if optimizes:
        options = binding.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
        builder = binding.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        _dispose(passes)
    made: bytes = machine.emit_object(module)
    return made


def _dispose(passes: Any) -> None:
    """Free passes if llvmlite does not: up to 0.50 it calls the `_dispose` of a class that frees nothing."""
    for each in type(passes).__mro__:
        own = vars(each).get("_dispose")
        if own is not None and each.__name__ == "NewPassManager":
            if type(passes)._dispose is not own:
                own(passes)
            return


def main(command: str) -> None:
    """Write the answer to a command to standard output."""
    if command == "processor":
        answer = json.dumps(processor()).encode()
    else:
        answer = compile_text(sys.stdin.buffer.read().decode(), command == "optimize")
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
