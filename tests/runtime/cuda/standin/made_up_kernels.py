"""Kernels without code, for tests that only count driver calls: nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from triten.runtime.cuda.driver import kernel_name
from triten.runtime.cuda.triton.compile import KernelBinary

if TYPE_CHECKING:
    from .recorded_calls import Call, StandIn

ELEMENTS = {"bf16": (2, 10), "fp16": (2, 8), "fp32": (4, 7)}
"""Bytes and Triton's number of the types that descriptors have here."""


def without_code() -> None:
    """Replace kernels by made-up ones with the right name, signature and number of warps."""
    from triten.runtime.cuda.cupy.driver import CuPyDriver
    from triten.runtime.cuda.cupy.kernel import CuPyKernel
    from triten.runtime.cuda.tensor_map import descriptor_type

    def map_of(type_):
        """Return a descriptor's tensor map metadata as the compiler gives it; empty for other parameters."""
        described = descriptor_type(type_)
        if described is None:
            return []
        size, number = ELEMENTS[described.element]
        meta = {"elem_size": size, "elem_type": number, "swizzle": 0, "fp4_padded": False}
        return [{"block_size": list(described.block), **meta}]

    def compile_nothing(self, kernel, signature, constexprs, divisible, options):
        types = tuple(signature[name] for name in kernel.arg_names if name in signature)
        maps = tuple(one for type_ in types for one in map_of(type_))
        binary = KernelBinary(
            kernel_name(kernel), 90, b"standin\0", {}, types, options["num_warps"], 1, 0, 0, 1,
            tensor_maps=maps, launch_pdl=options.get("launch_pdl", False),
        )  # fmt: skip
        return CuPyKernel(self, binary, self.properties(self.current_device()))

    CuPyDriver._compile = compile_nothing


def settled(standin: StandIn, program: Callable[[], object]) -> list[Call]:
    """Return the calls of a program that has run twice before."""
    for _ in range(2):
        program()
    return standin.during(program)


def names(calls: list[Call]) -> list[str]:
    """Return the names of the driver functions that were called."""
    return [call.name for call in calls]
