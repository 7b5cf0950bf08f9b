"""Train a byte-pair encoding and a small GPT on sonnets, and generate text.

    python examples/generate_text.py [--device cpu|cuda] [--vocabulary 400] [--steps 300] [--seed 0]

The tokenizer starts with the 256 bytes and merges the most frequent neighbors within words, so that it encodes any
text (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016). The script prints the
losses on the training text and on held-out text, in bits per byte, which do not depend on the vocabulary.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import triten as tt
import triten.nn.functional as F
from triten import nn

TEXT = Path(__file__).with_name("sonnets.txt")
CONTEXT = 48
BATCH = 8


class BytePairEncoding:
    """Tokenizer whose tokens are the bytes and the pairs that training merged, in the order of training."""

    def __init__(self, text: str, size: int) -> None:
        counts = Counter(self.split(text))
        words = {word: list(word.encode()) for word in counts}
        self.ranks: dict[tuple[int, int], int] = {}
        self.tokens = [bytes([value]) for value in range(256)]
        while len(self.tokens) < size and any(len(ids) > 1 for ids in words.values()):
            pairs: Counter[tuple[int, int]] = Counter()
            for word, ids in words.items():
                pairs.update({pair: counts[word] * n for pair, n in Counter(pairwise(ids)).items()})
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.ranks[best] = len(self.tokens)
            self.tokens.append(self.tokens[best[0]] + self.tokens[best[1]])
            words = {word: self.merge(ids, best) for word, ids in words.items()}

    @staticmethod
    def split(text: str) -> list[str]:
        """Return the words with the space in front of them, punctuation and line ends; no merge crosses them."""
        return re.findall(r" ?\w+| ?[^\w\s]+|\s", text)

    def merge(self, ids: list[int], pair: tuple[int, int]) -> list[int]:
        """Replace each occurrence of a pair by its token."""
        merged: list[int] = []
        for each in ids:
            if merged and (merged[-1], each) == pair:
                merged[-1] = self.ranks[pair]
            else:
                merged.append(each)
        return merged

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        tokens = []
        for word in self.split(text):
            ids = list(word.encode())
            while pairs := [pair for pair in pairwise(ids) if pair in self.ranks]:
                ids = self.merge(ids, min(pairs, key=self.ranks.__getitem__))
            tokens += ids
        return tokens

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens. Bytes that are no UTF-8 become replacement characters."""
        return b"".join(self.tokens[each] for each in ids).decode(errors="replace")


class GPT(nn.Module):
    """Tokens (batch, length) to logits of the next ones (batch, length, vocabulary)."""

    def __init__(self, vocabulary: int, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: tt.Tensor) -> tt.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.token(tokens) + self.position(tt.arange(length, device=tokens.device))
        return self.head(self.layers(x, mask, is_causal=True))

    @tt.no_grad()
    def generate(self, tokens: tt.Tensor, count: int, top_k: int = 10, temperature: float = 0.8) -> tt.Tensor:
        """Append `count` sampled tokens to tokens (length,)."""
        for _ in range(count):
            values, indices = self(tokens[-CONTEXT:].unsqueeze(0))[0, -1].topk(top_k)
            drawn = tt.multinomial((values / temperature).softmax(0), 1)
            tokens = tt.cat([tokens, indices[drawn]])
        return tokens


def loss_of(model: GPT, tokens: tt.Tensor, starts: tt.Tensor) -> tt.Tensor:
    """Return the mean cross entropy of the windows that begin at `starts`."""
    windows = tokens[starts.unsqueeze(1) + tt.arange(CONTEXT + 1, device=tokens.device)]
    return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the tokenizer and the model, print the losses, and generate text."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--device", default="cuda" if tt.cuda.is_available() else "cpu")
    parser.add_argument("--vocabulary", type=int, default=400, help="tokens, at least 256")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=60, help="to generate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tt.manual_seed(options.seed)
    text = TEXT.read_text(encoding="utf-8")
    end = len(text) * 9 // 10
    train, held_out = text[:end], text[end:]
    tokenizer = BytePairEncoding(train, options.vocabulary)
    data, unseen = (tt.tensor(tokenizer.encode(part), device=options.device) for part in (train, held_out))
    print(f"{len(tokenizer.tokens)} tokens; {len(train.encode()) / len(data):.2f} bytes per token")
    model = GPT(len(tokenizer.tokens)).to(options.device)
    optimizer = tt.optim.AdamW(model.parameters(), fused=True)
    scheduler = tt.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=options.steps)
    windows = tt.arange(0, len(unseen) - CONTEXT, CONTEXT // 2, device=options.device)
    bits = len(data) / len(train.encode()) / math.log(2)  # bits per byte of a loss in nats per token
    print(f"{'step':>6} {'training':>9} {'held out':>9}   bits per byte")
    for step in range(1, options.steps + 1):
        loss = loss_of(model, data, tt.randint(len(data) - CONTEXT, (BATCH,), device=options.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % max(1, options.steps // 5) == 0:
            with tt.no_grad():
                test = loss_of(model.eval(), unseen, windows)
            model.train()
            print(f"{step:6} {loss.item() * bits:9.3f} {test.item() * bits:9.3f}")
    prompt = tt.tensor(tokenizer.encode("Shall I"), device=options.device)
    print(tokenizer.decode(model.eval().generate(prompt, options.tokens).tolist()))


if __name__ == "__main__":
    main()
