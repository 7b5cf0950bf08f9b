"""Inputs of the launch model from a kernel that the ahead-of-time checks compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ahead_of_time.schedule import Schedule
from .launch_time import Code, Estimate, steady
from .multiprocessor import MULTIPROCESSORS

FORMATS = {
    "fp64": "float64_tensor",
    "fp32": "tf32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4nv": "float8",
    "fp8e5": "float8",
    "u8": "float4",
}
"""The tensor peak of a kernel's dtype, Triton's name first; without matrix instructions it is the format's own."""
PLAIN = {"fp64": "float64"}


def code_of(launch: Mapping[str, Any]) -> Code:
    """Return a launch's code; `launch` is the result of `recording.describe`, with the compilation's
    ``found``.
    """
    compiled, request = launch["found"], launch["request"]
    schedule = Schedule(**compiled["schedule"])
    dtype = launch["dtype"]
    return Code(
        schedule,
        launch["warps"],
        compiled["registers"],
        compiled["shared"],
        compiled["tensor_memory"],
        request["options"]["num_stages"],
        FORMATS.get(dtype, "float32") if schedule.matrix else PLAIN.get(dtype, "float32"),
        launch["reuses"],
        launch.get("groups", 1),
    )


def estimate_of(launch: Mapping[str, Any]) -> Estimate | None:
    """Estimate the throughput of a device filled with the launch's blocks.

    Return None without a data sheet, for a failed compilation, and for code that neither moves bytes nor runs
    matmuls.
    """
    multiprocessor = MULTIPROCESSORS.get(launch["request"]["target"])
    if multiprocessor is None or "error" in launch["found"]:
        return None
    code = code_of(launch)
    amount = code.block_operations if code.reuses else code.block_bytes
    return steady(multiprocessor, code) if amount and code.resident(multiprocessor) else None
