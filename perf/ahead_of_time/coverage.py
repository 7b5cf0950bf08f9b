"""Comparison of declared with launched kernels: both sets must be equal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...runtime.cuda.occupancy import (
    RELATIVES,
    WARP_SIZE,
    WARP_UNIT,
    Target,
    register_budget,
    rounded_up,
    shared_budget,
    tensor_memory_budget,
)
from ...runtime.cuda.tensor_map import descriptor_type
from ...triton_kernels.budget import DECLARATIONS, MIN_CAPABILITY, Configuration, Declaration
from .checks import Expectation
from .disassembly import WIDEST
from .request import Request


class Launched(NamedTuple):
    """A launch, seen through its kernel's declaration: its dtype, and the configuration that covers it."""

    declaration: Declaration
    dtype: str
    configuration: Configuration
    exact: bool
    """True if it is that configuration, not a smaller tile of it."""


LANGUAGES = ("triton.jit", "gluon.jit")


def kernels_of(source: str) -> list[str]:
    """Return the kernels that a module's source defines: `@triton.jit` and `@gluon.jit` functions without a
    return value.

    A function that another function names is a part of that function, such as the code of some of its warps.
    The same holds for a function that only has constants and takes no launch arguments.

    Example:
        >>> from triten.perf.ahead_of_time.coverage import kernels_of
        >>> kernels_of("@triton.jit\\ndef f(x): return x\\n@triton.jit\\ndef g(x): tl.store(x, f(1))")
        ['g']
    """
    compiled = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator).startswith(LANGUAGES) for decorator in node.decorator_list)
    ]
    parts = {
        inner.id
        for node in compiled
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and inner.id != node.name
    }
    return [
        node.name
        for node in compiled
        if node.name not in parts
        and not all(
            ast.unparse(argument.annotation or argument) == "tl.constexpr" for argument in node.args.args
        )
        and not any(isinstance(inner, ast.Return) and inner.value is not None for inner in ast.walk(node))
    ]


def kernels_in(files: Mapping[str, Path]) -> list[str]:
    """``module:function`` of each kernel in these modules' files."""
    return [f"{module}:{name}" for module, path in files.items() for name in kernels_of(path.read_text())]


def configuration_of(tile: tuple[int, ...], options: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a launch by its tile and Triton's options."""
    return Configuration(tile, options["num_warps"], options["num_stages"], ctas=options.get("num_ctas", 1))


def seen_through_declaration(
    declaration: Declaration,
    target: Target,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Launched | str:
    """Return the declaration's match for a launch, or an error message if no declaration covers it."""
    dtype = declaration.dtype_of(signature)
    tile = tuple(constants[name] for name in declaration.tile)
    launched_configuration = configuration_of(tile, options)
    covering = declaration.covering(dtype, launched_configuration, target.capability)
    if covering is None:
        return f"{dtype} at {launched_configuration} is launched, but not declared"
    return Launched(declaration, dtype, covering, covering.tile == tile)


def element_bits(pointer: str) -> int:
    """Return the bits of an element in memory, from the pointer's type.

    Example:
        >>> from triten.perf.ahead_of_time.coverage import element_bits
        >>> element_bits("*bf16"), element_bits("*i1"), element_bits("*fp8e4nv")
        (16, 8, 8)
    """
    match = re.search(r"\d+", pointer)
    assert match is not None, pointer
    return max(int(match.group()), 8)


def functions_in(constants: Mapping[str, Any]) -> list[str]:
    """``module:function`` of the functions that stand among encoded constants."""
    return [
        value["function"]
        for value in constants.values()
        if isinstance(value, Mapping) and "function" in value
    ]


def residency(launched: Launched, target: Target, request: Request) -> tuple[int, str]:
    """Return the resident blocks of a launch, and the reason if they differ from the configuration's own.

    A device that runs the kernels of another design has the declared blocks, up to its number of warps.
    """
    declaration, _, configuration, _ = launched
    aligned = declaration.is_aligned(request.signature, request.divisible)
    functions = [name.rpartition(":")[2] for name in functions_in(request.constants)]
    max_resident = min(target.warps // rounded_up(configuration.warps, WARP_UNIT), target.blocks)
    usual = declaration.blocks(configuration, target.capability)
    blocks = declaration.blocks(configuration, target.capability, aligned, functions)
    if target.capability in RELATIVES:
        usual, blocks = min(usual, max_resident), min(blocks, max_resident)
    if blocks == usual:
        return usual, ""
    return blocks, "unaligned" if not aligned else " ".join(
        n for n in functions if n in declaration.functions
    )


def expectation(launched: Launched, target: Target, request: Request, wide: bool) -> Expectation:
    """Return the expectation of a launch on a target; `wide` applies the claims of wide accesses."""
    declaration, dtype, configuration, exact = launched
    blocks, warps = residency(launched, target, request)[0], configuration.warps_of_a_block
    names = [name.rpartition(":")[2] for name in functions_in(request.constants)]
    names += [name for name, value in request.constants.items() if value is True]
    local = [declaration.local[name][0] for name in names if name in declaration.local]
    bits = {name: element_bits(type_) for name, type_ in request.signature.items() if type_.startswith("*")}
    lanes = configuration.elements * declaration.per_index // (warps * WARP_SIZE * configuration.ctas)
    aligned = sorted(set(request.divisible) & set(bits))

    rounded = request.constants.get("PRECISION") == "tf32"

    def claimed(names: Iterable[str]) -> dict[str, int]:
        return {name: min(WIDEST, bits[name] * lanes) for name in names if wide and name in bits}

    return Expectation(
        registers=register_budget(target, blocks, warps),
        # Blocks are declared for the shared memory of the design; where there is less, one must fit.
        shared=target.shared_per_block if target.capability in RELATIVES else shared_budget(target, blocks),
        tensor_memory=tensor_memory_budget(target, blocks),
        opt_in=target.shared_per_block,
        columns=target.tensor_memory,
        threads=warps * WARP_SIZE,
        local=sum(local),
        element_bits=bits,
        aligned=aligned,
        loads=claimed(declaration.loads),
        stores=claimed(declaration.stores),
        matrix=target.matrix.get(dtype) if exact and (rounded or dtype in declaration.tensor_cores) else None,
        exact=dtype in declaration.exact and not rounded,
        bulk=[
            opcode
            for opcode, names in (("UTMALDG", declaration.loads), ("UTMASTG", declaration.stores))
            if any(descriptor_type(request.signature.get(name, "")) is not None for name in names)
        ],
    )


def gaps(
    target: Target,
    kernels: Iterable[str],
    reached: Iterable[tuple[object, ...]],
    wide: Iterable[str],
) -> Iterator[str]:
    """Yield an error for each kernel, declared dtype and configuration, and claim, without a counterpart.

    Args:
        kernels: Kernels that must be declared and launched.
        reached: Kernel, dtype and `Configuration.shape` of launches.
        wide: Kernels whose claims of wide accesses were checked.

    A device with less shared memory than its related design is exempt, since its configurations are not
    declared.
    """
    reached, wide = set(reached), set(wide)
    for name in kernels:
        declaration = DECLARATIONS.get(name)
        if declaration is None:
            yield f"{name}: a kernel without a declaration (triton_kernels/budget.py)"
            continue
        for dtype, configurations in declaration.configurations.items():
            if target.capability < MIN_CAPABILITY.get(dtype, 0):
                continue
            for configuration in configurations:
                if (
                    any(configuration.tile)  # else it leaves the call to another kernel
                    and target.capability not in RELATIVES
                    and configuration.is_for(target.capability)
                    and (name, dtype, *configuration.shape) not in reached
                ):
                    yield f"{name}: {dtype} at {configuration} is declared, but no sample reaches it"
        every = (configuration for each in declaration.configurations.values() for configuration in each)
        taken = any(configuration.is_for(target.capability) for configuration in every)
        if taken and (declaration.loads or declaration.stores) and name not in wide:
            yield f"{name}: claims wide accesses, but no sample shows them"
