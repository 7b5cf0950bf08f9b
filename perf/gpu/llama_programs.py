"""Decode and prefill of a model with the shapes of Llama 3 8B, bfloat16; decode is replayed from a CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from .program import Program, Step

DECODE, PREFILL = "language model, decode", "language model, prefill"
ITEMSIZE = 2
WARM_UP = 2
"""Steps before the capture of a graph."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model: `width` = `heads` times the head's size; `kv_heads` of keys and values."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.width // self.heads

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a layer's parameters."""
        kv = self.kv_heads * self.head
        return {
            "norm1": (self.width,), "q": (self.width, self.width), "k": (kv, self.width), "v": (kv, self.width),
            "out": (self.width, self.width), "norm2": (self.width,), "gate": (self.hidden, self.width),
            "up": (self.hidden, self.width), "down": (self.width, self.hidden),
        }  # fmt: skip

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of all parameters: embedding, layers, last norm, head."""
        layers = list(self.layer_shapes().values()) * self.layers
        table = (self.vocabulary, self.width)
        return [table, *layers, (self.width,), table]

    @property
    def read_parameters(self) -> int:
        """Parameters that a step reads: all but the embedding, of which it reads a row for each token."""
        return sum(math.prod(shape) for shape in self.shapes()[1:])


LLAMA_8B = Sizes(32, 4096, 32, 8, 14336, 128_256)
TINY = Sizes(1, 64, 4, 2, 96, 64)


class Model:
    """Parameters and caches of one library's model."""

    def __init__(
        self, library: ModuleType, device: str, sizes: Sizes, batch: int, cached: int, compiled: bool
    ) -> None:
        self.library, self.functional, self.sizes = library, library.nn.functional, sizes
        make = partial(library.randn, device=device, dtype=library.bfloat16)

        def weight(shape: tuple[int, ...]) -> Any:
            return make(shape).mul_(shape[-1] ** -0.5) if len(shape) > 1 else make(shape).abs_()

        shapes = sizes.layer_shapes()
        self.layers = [{name: weight(shape) for name, shape in shapes.items()} for _ in range(sizes.layers)]
        table = (sizes.vocabulary, sizes.width)
        self.embedding, self.norm, self.head = weight(table), weight((sizes.width,)), weight(table)
        cache = (batch, sizes.kv_heads, cached, sizes.head)
        self.caches = [(make(cache), make(cache)) for _ in range(sizes.layers)] if cached else []
        self.cosines, self.sines = make((max(cached, 1), sizes.head)), make((max(cached, 1), sizes.head))
        layer: Callable[..., Any] = self.layer
        self.run_layer = library.compile(layer) if compiled else layer

    def rotated(self, x: Any, cos: Any, sin: Any) -> Any:
        """Rotate queries or keys by their positions."""
        half = x.shape[-1] // 2
        return x * cos + self.library.cat((-x[..., half:], x[..., :half]), -1) * sin

    def layer(self, x: Any, weights: dict[str, Any], cache: Any, position: Any, cos: Any, sin: Any) -> Any:
        """Compute a layer; with a cache, write keys and values at `position` and attend over all of it."""
        functional, sizes = self.functional, self.sizes
        batch, length, width = x.shape
        y = functional.rms_norm(x, (width,), weights["norm1"])
        q, k, v = (
            functional.linear(y, weights[name]).view(batch, length, -1, sizes.head).transpose(1, 2)
            for name in ("q", "k", "v")
        )
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        if cache is not None:
            k, v = cache[0].index_copy_(2, position, k), cache[1].index_copy_(2, position, v)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
        x = x + functional.linear(y.transpose(1, 2).reshape(batch, length, width), weights["out"])
        y = functional.rms_norm(x, (width,), weights["norm2"])
        gate = functional.silu(functional.linear(y, weights["gate"])) * functional.linear(y, weights["up"])
        return x + functional.linear(gate, weights["down"])

    def __call__(self, tokens: Any, position: Any) -> Any:
        """Return the logits of the last token."""
        length = tokens.shape[1]
        cos, sin = (
            (table[position] if self.caches else table.expand(length, -1))
            for table in (self.cosines, self.sines)
        )
        x = self.functional.embedding(tokens, self.embedding)
        caches = self.caches or [None] * len(self.layers)
        for weights, cache in zip(self.layers, caches, strict=True):
            x = self.run_layer(x, weights, cache, position, cos, sin)
        x = self.functional.rms_norm(x[:, -1:], (self.sizes.width,), self.norm)
        return self.functional.linear(x, self.head)


def decode(sizes: Sizes, batch: int, cached: int, library: ModuleType, device: str, compiled: bool) -> Step:
    """Return a step that replays the computation of one token's logits, with `cached` tokens before it."""
    with library.no_grad():
        model = Model(library, device, sizes, batch, cached, compiled)
        tokens = library.zeros((batch, 1), dtype=library.int64, device=device)
        position = library.full((1,), cached - 1, dtype=library.int64, device=device)
        for _ in range(WARM_UP):
            model(tokens, position)
        if device != "cuda":
            return without_gradients(library, model, tokens, position)
        library.cuda.synchronize()
        graph = library.cuda.CUDAGraph()
        with library.cuda.graph(graph):
            logits = model(tokens, position)

    def step() -> None:
        graph.replay()

    step.kept = model, tokens, position, logits  # type: ignore[attr-defined]
    return step


def prefill(sizes: Sizes, length: int, library: ModuleType, device: str, compiled: bool) -> Step:
    """Return a step that computes the logits after a prompt of `length` tokens."""
    with library.no_grad():
        model = Model(library, device, sizes, 1, 0, compiled)
        tokens = library.zeros((1, length), dtype=library.int64, device=device)
    return without_gradients(library, model, tokens, None)


def without_gradients(library: ModuleType, model: Model, tokens: Any, position: Any) -> Step:
    """Return a step that runs the model under no_grad."""

    def step() -> None:
        with library.no_grad():
            model(tokens, position)

    return step


def llama_programs(scale: int) -> Iterator[Program]:
    """Yield decode of batches of 1 and 8, and prefill. `scale` > 1 takes a tiny model."""
    tiny = scale > 1
    sizes = TINY if tiny else LLAMA_8B
    cached, length = (16, 8) if tiny else (2048, 2048)
    cache = 2 * sizes.layers * sizes.kv_heads * sizes.head * cached
    for batch in (1, 8):
        yield Program(
            DECODE, f"Llama 8B decode, batch {batch}, {cached} tokens cached", partial(decode, sizes, batch, cached),
            nbytes=ITEMSIZE * (sizes.read_parameters + batch * cache),
            flops=2 * batch * sizes.read_parameters, can_compile=True,
        )  # fmt: skip
    matmuls = sizes.read_parameters - sizes.vocabulary * sizes.width
    yield Program(
        PREFILL, f"Llama 8B prefill, {length} tokens", partial(prefill, sizes, length),
        flops=2 * matmuls * length + 2 * sizes.layers * sizes.width * length * length, can_compile=True,
    )  # fmt: skip
