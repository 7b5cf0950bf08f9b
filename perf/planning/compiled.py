"""What the model of a launch takes of a kernel that the gate compiled."""

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
    """A launch's code: `launch` is what `recording.describe` says, with what the compilation ``found``."""
    found, request = launch["found"], launch["request"]
    schedule = Schedule(**found["schedule"])
    dtype = launch["dtype"]
    return Code(
        schedule,
        launch["warps"],
        found["registers"],
        found["shared"],
        found["tensor_memory"],
        request["options"]["num_stages"],
        FORMATS.get(dtype, "float32") if schedule.matrix else PLAIN.get(dtype, "float32"),
        launch["reuses"],
        launch.get("groups", 1),
    )


def estimate_of(launch: Mapping[str, Any]) -> Estimate | None:
    """What a device full of the launch's blocks reaches.

    None of a device without a data sheet, of a failed compilation, and of code without a limit to have a share of: that
    moves no bytes, and multiplies nothing.
    """
    place = MULTIPROCESSORS.get(launch["request"]["target"])
    if place is None or "error" in launch["found"]:
        return None
    code = code_of(launch)
    amount = code.block_operations if code.reuses else code.block_bytes
    return steady(place, code) if amount and code.resident(place) else None
