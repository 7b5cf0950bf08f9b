"""Steps of optimizers, of gradient clipping and of loss scaling, over the parameters of GPT-2 and Llama 3 8B."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

from .llama_programs import LLAMA_8B, TINY
from .program import Program, Step

OPTIMIZERS = "optimizers"
Shapes = list[tuple[int, ...]]
ITEMSIZE = {"float32": 4, "bfloat16": 2}


def gpt2_shapes(vocabulary: int = 50304, length: int = 1024, width: int = 768, layers: int = 12) -> Shapes:
    """Return the shapes of the parameters of GPT-2, with the head that shares the embedding."""
    block: Shapes = [
        (width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,),
        (4 * width, width), (4 * width,), (width, 4 * width), (width,),
    ]  # fmt: skip
    return [(vocabulary, width), (length, width), *(block * layers), (width,), (width,)]


def parameters_of(library: ModuleType, device: str, shapes: Shapes, dtype: str) -> list[Any]:
    """Return parameters with gradients."""
    made = []
    for shape in shapes:
        parameter = library.nn.Parameter(library.zeros(shape, device=device, dtype=getattr(library, dtype)))
        parameter.grad = library.full_like(parameter, 1e-3)
        made.append(parameter)
    return made


def adamw(shapes: Shapes, dtype: str, library: ModuleType, device: str, compiled: bool) -> Step:
    """Return a step of fused AdamW."""
    optimizer = library.optim.AdamW(parameters_of(library, device, shapes, dtype), fused=True)

    def step() -> None:
        optimizer.step()

    return step


def clipping(shapes: Shapes, dtype: str, library: ModuleType, device: str, compiled: bool) -> Step:
    """Return the clipping of the gradients' norm, which it returns."""
    parameters = parameters_of(library, device, shapes, dtype)
    return partial(library.nn.utils.clip_grad_norm_, parameters, 1e-2)


def scaling(shapes: Shapes, dtype: str, library: ModuleType, device: str, compiled: bool) -> Step:
    """Return a step of SGD under a GradScaler: unscale, look for infinities, step, update."""
    parameters = parameters_of(library, device, shapes, dtype)
    optimizer = library.optim.SGD(parameters, lr=0.0, fused=True)
    scaler = library.amp.GradScaler(device, init_scale=1.0, growth_interval=1 << 30)
    scaler.scale(library.zeros((), device=device))

    def step() -> None:
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    return step


def optimizer_programs(scale: int) -> Iterator[Program]:
    """Yield the programs. `scale` > 1 takes tiny parameters."""
    gpt2 = gpt2_shapes() if scale == 1 else gpt2_shapes(16, 8, 8, 1)
    llama = (LLAMA_8B if scale == 1 else TINY).shapes()
    for name, shapes, dtype, is_large in (
        ("GPT-2", gpt2, "float32", False), ("Llama 8B", llama, "bfloat16", True)
    ):  # fmt: skip
        nbytes = ITEMSIZE[dtype] * sum(math.prod(shape) for shape in shapes)
        of = f"{len(shapes)} tensors of {name} {dtype}"
        yield Program(
            OPTIMIZERS, f"AdamW, {of}", partial(adamw, shapes, dtype), 7 * nbytes, is_alone=is_large
        )
        yield Program(
            OPTIMIZERS,
            f"clip_grad_norm_, {of}",
            partial(clipping, shapes, dtype),
            3 * nbytes,
            is_alone=is_large,
        )
        if not is_large:
            yield Program(
                OPTIMIZERS, f"GradScaler and SGD, {of}", partial(scaling, shapes, dtype), 5 * nbytes
            )
