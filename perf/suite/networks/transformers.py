"""Transformers: a GPT, a vision transformer, blocks of shifted windows."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def _attention(library: ModuleType, width: int, heads: int, causal: bool) -> Any:
    nn, functional = library.nn, library.nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.out(y.transpose(1, 2).reshape(batch, length, width))

    return Attention()


def _block(library: ModuleType, width: int, attention: Any) -> Any:
    nn = library.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = attention
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    return Block()


def gpt(library: ModuleType, vocabulary: int, length: int, width: int, heads: int, layers: int) -> Any:
    """Next-token logits, as nanoGPT's model without dropout."""
    nn = library.nn

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.places = nn.Parameter(library.zeros(length, width))
            self.blocks = nn.Sequential(
                *(_block(library, width, _attention(library, width, heads, True)) for _ in range(layers))
            )
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places[: tokens.shape[1]]
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    return GPT()


def vision_transformer(
    library: ModuleType, side: int, patch: int, width: int, heads: int, layers: int, classes: int
) -> Any:
    """Logits from the mean of patches of images."""
    nn = library.nn

    class VisionTransformer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.places = nn.Parameter(library.zeros((side // patch) ** 2, width))
            self.blocks = nn.Sequential(
                *(_block(library, width, _attention(library, width, heads, False)) for _ in range(layers))
            )
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, classes)

        def forward(self, images: Any) -> Any:
            x = self.patches(images).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.blocks(x)).mean(1))

    return VisionTransformer()


def shifted_windows(
    library: ModuleType, side: int, window: int, width: int, heads: int, layers: int, classes: int
) -> Any:
    """Logits of blocks whose attention is within windows, every second one shifted, as in a Swin transformer."""
    nn = library.nn

    class Windows(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, shift: int) -> None:
            super().__init__()
            self.shift = shift
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.bias = nn.Parameter(library.zeros(heads, window**2, window**2))

        def forward(self, x: Any) -> Any:
            batch, count = len(x), side // window
            if self.shift:
                x = library.roll(x, (-self.shift, -self.shift), (1, 2))
            x = x.view(batch, count, window, count, window, width).permute(0, 1, 3, 2, 4, 5)
            x = x.reshape(batch * count**2, window**2, width)
            q, k, v = self.qkv(x).view(len(x), window**2, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1) + self.bias
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(len(x), window**2, width)
            y = self.out(y).view(batch, count, count, window, window, width).permute(0, 1, 3, 2, 4, 5)
            y = y.reshape(batch, side, side, width)
            return library.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y

    class ShiftedWindows(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, 4)
            shifts = [window // 2 * (number % 2) for number in range(layers)]
            self.blocks = nn.Sequential(*(_block(library, width, Windows(shift)) for shift in shifts))
            self.head = nn.Linear(width, classes)

        def forward(self, images: Any) -> Any:
            x = self.blocks(self.patches(images).permute(0, 2, 3, 1))
            return self.head(x.mean((1, 2)))

    return ShiftedWindows()
