"""Subprocess that compiles every kernel that an exported program launches on a target.

``python -m triten.compiler.export.kernel_recording ARCHIVE TARGET FOLDER`` loads the program and runs it on a driver
that records launches and runs none, so that no GPU is needed. Arguments are at addresses that are multiples of 16, and
once more at others, for which kernels have variants. Named sizes are those of the example, and some typical ones.
TARGET is JSON (`target_to_json`). FOLDER gets a file for each kernel, named by its key, the sources that the compiler
wrote, and ``kernels.json``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...dispatch.autograd.grad_mode import no_grad
from ...dispatch.generated import functions as ops
from ...runtime.cuda import driver as cuda
from ...runtime.cuda.occupancy import Target
from ...runtime.cuda.recording_driver import RecordingDriver
from ...runtime.cuda.triton.assembler import least_cuda
from ...runtime.cuda.triton.compile import chosen_options
from ...runtime.cuda.triton.cubin_store import find_or_compile
from ...runtime.cuda.triton.kernel_entry import pack
from ...runtime.cuda.triton.kernel_key import KernelRequest, request_key
from ..triton.source_files import PREFIX

INDEX = "kernels.json"
SUFFIX = ".kernel"


def target_to_json(target: Target) -> str:
    """Return a target as JSON."""
    return json.dumps(dataclasses.asdict(target))


def target_from_json(text: str) -> Target:
    """Return the target of JSON."""
    return Target(**json.loads(text))


def launches(program: Any, driver: RecordingDriver) -> Iterator[Mapping[str, Any]]:
    """Yield the driver's compilation requests of a program, each once.

    Every call uses a fresh module, since a module's first call determines the launches of later ones.
    """
    yielded = []
    for specs in program.tensor_specs():
        for offset in (0, 1):
            driver.launched.clear()
            with no_grad():
                program.module().run_leaves([_argument(spec, offset) for spec in specs])
            for request in driver.launched:
                if request not in yielded:
                    yielded.append(request)
                    yield request


def _argument(spec: Any, offset: int) -> Any:
    """Return a tensor of a spec that begins `offset` elements behind an address that is a multiple of 512."""
    reach = sum((n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True)) + 1 if spec.numel else 0
    memory = ops.empty((reach + offset,), dtype=spec.dtype, device=spec.device)
    if spec.device.type == "cpu":
        memory.zero_()
    return memory._strided_from((reach,), (1,), offset)._strided_from(spec.sizes, spec.strides, 0)


def main(archive: str, target: Target, folder: Path) -> None:
    """Write the kernels of an archive's program into a folder."""
    # Tuning results of this machine do not apply to the target.
    os.environ["TRITEN_TUNING_STORE"] = "0"
    driver = RecordingDriver(target)  # type: ignore[abstract] # its methods are set below the class
    cuda._driver = driver
    from .archive import load
    from .passes import move_to_device_pass

    program = load(archive)
    if not any(spec.device.type == "cuda" for spec in _input_specs(program)):
        program = move_to_device_pass(program, "cuda")
    version = least_cuda(target.capability)
    rows = []
    for request in launches(program, driver):
        kernel, options = request["kernel"], chosen_options(request["options"])
        arguments = (
            request["signature"],
            request["constants"],
            request["divisible"],
            target.capability,
            options,
        )
        key = request_key(KernelRequest(kernel, *arguments))
        if key is None:
            raise RuntimeError(f"kernel '{cuda.kernel_name(kernel)}' cannot be found again by its source")
        binary = find_or_compile(kernel, *arguments, version)
        (folder / f"{key}{SUFFIX}").write_bytes(pack(key, binary))
        rows.append({"key": key, "name": binary.name})
        if kernel.__module__.startswith(PREFIX):
            (folder / f"{binary.name}.py").write_text(kernel.module_source, encoding="utf-8")
    if not rows:
        raise RuntimeError("the program launches no kernel")
    report = {"target": target.name, "device": target.device, "cuda": version, "kernels": rows}
    (folder / INDEX).write_text(json.dumps(report), encoding="utf-8")


def _input_specs(program: Any) -> list[Any]:
    """Return the specs of a program's inputs, including its own tensors."""
    return [node.val for node in program.graph.find_nodes(op="placeholder")]


if __name__ == "__main__":
    main(sys.argv[1], target_from_json(sys.argv[2]), Path(sys.argv[3]))
