"""Train a small GPT on characters, eagerly and compiled, compare the two, and generate text.

    python examples/compile_gpt.py [--device cpu|cuda|auto] [--mode default|reduce-overhead] [--steps 200] [--seed 0]

Both models start with the same weights and see the same batches. The losses are the same, except for last
bits on a GPU, where fused row reductions use other tiles. The script prints tokens per second, and the number
of steps and kernels in a training step. On a GPU it also prints the number of host launches per step, and the
peak of allocated memory. With ``--mode reduce-overhead``, forward and backward are one launch each: CUDA
graphs of all their kernels.

The text is seven of William Shakespeare's sonnets (18, 29, 30, 60, 73, 116 and 130; 1609), which are in the
public domain. The model is that of Radford et al., "Language Models are Unsupervised Multitask Learners"
(2019), with learned positions and layer norms before each part.
"""

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import triten as tt
import triten.nn.functional as F
from triten import nn
from triten.runtime.cuda.driver import driver

TEXT = Path(__file__).with_name("sonnets.txt")
CONTEXT = 64
BATCH = 4


class Block(nn.Module):
    """Attention and a perceptron, each added to what it reads: (batch, length, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class GPT(nn.Module):
    """Characters (batch, length) to the logits of the next ones (batch, length, characters)."""

    def __init__(self, characters: int, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, tokens: tt.Tensor) -> tt.Tensor:
        x = self.token(tokens) + self.place(tt.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch_of(data: tt.Tensor, generator: tt.Generator) -> tuple[tt.Tensor, tt.Tensor]:
    """Characters (4, 64), and those behind each."""
    starts = tt.randint(len(data) - CONTEXT - 1, (BATCH,), generator=generator).tolist()
    return (
        tt.stack([data[start : start + CONTEXT] for start in starts]),
        tt.stack([data[start + 1 : start + CONTEXT + 1] for start in starts]),
    )


def train(
    model: nn.Module,
    forward: nn.Module,
    data: tt.Tensor,
    steps: int,
    seed: int,
    progress: Progress,
    description: str,
) -> tuple[float, float, int]:
    """Train the model; return the last loss, characters per second, and launches of the last step.

    The first tenth of the steps, which captures, is not timed.
    """
    generator = tt.Generator().manual_seed(seed)
    optimizer = tt.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    loss, timed, begin, launches = tt.zeros(()), 0, time.perf_counter(), Launches(data.is_cuda)
    for step in progress.track(range(steps), description=description):
        if step == steps - 1:
            launches.begin()
        tokens, targets = batch_of(data, generator)
        loss = F.cross_entropy(forward(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == steps // 10:
            if data.is_cuda:
                tt.cuda.synchronize()
            begin, timed = time.perf_counter(), step + 1
    count = launches.end()
    if data.is_cuda:
        tt.cuda.synchronize()
    return loss.item(), (steps - timed) * BATCH * CONTEXT / (time.perf_counter() - begin), count


class Launches:
    """Counts what the host launches on a GPU: kernels, and CUDA graphs, each of which is one launch."""

    def __init__(self, is_cuda: bool) -> None:
        self.driver = driver() if is_cuda else None
        self.kernels = self.graphs = 0

    def begin(self) -> None:
        if self.driver is not None:
            self.graphs = self.driver.graph_launches
            self.driver.observe_launches(self.seen)

    def seen(self, name, grid, stream, launch) -> None:
        self.kernels += 1
        launch()

    def end(self) -> int:
        if self.driver is None:
            return 0
        self.driver.observe_launches(None)
        return self.kernels + self.driver.graph_launches - self.graphs


class Count(tt.TensorDispatchMode):
    """Counts the operators that are called."""

    def __init__(self) -> None:
        self.calls = 0

    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def write(model: nn.Module, text: str, characters: str, count: int, generator: tt.Generator) -> str:
    """Return a text followed by `count` characters sampled from the model's logits."""
    device = next(model.parameters()).device
    tokens = [characters.index(c) for c in text]
    with tt.no_grad():
        for _ in range(count):
            context = tt.tensor([tokens[-CONTEXT:]], device=device)
            chances = tt.softmax(model(context)[0, -1] / 0.7, 0).cpu()
            tokens.append(int(tt.multinomial(chances, 1, generator=generator)))
    return "".join(characters[t] for t in tokens)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small GPT on sonnets, eagerly and compiled.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--mode", default="default", help="of tt.compile: default, reduce-overhead, ...")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64, help="a multiple of the heads, of which there are 4")
    parser.add_argument("--sample", type=int, default=200, help="characters to write at the end")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the batches and the sample")
    arguments = parser.parse_args()
    if arguments.steps < 10 or arguments.layers < 1 or arguments.width % 4:
        parser.error("--steps must be at least 10, --layers 1, and --width a multiple of 4")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    device = arguments.device
    if device == "auto":
        device = "cuda" if tt.cuda.is_available() else "cpu"
    text = TEXT.read_text(encoding="utf-8")
    characters = "".join(sorted(set(text)))
    data = tt.tensor([characters.index(c) for c in text], device=device)
    console = Console()
    table = Table(
        *("", "loss", "characters/s", "forward", "backward"),
        *(["launches", "peak MB"] if device == "cuda" else []),
    )
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    losses = []
    for variant in ("eager", "compiled"):
        tt.manual_seed(arguments.seed)
        model = GPT(len(characters), arguments.layers, arguments.width, heads=4).to(device)
        forward = tt.compile(model, fullgraph=True, mode=arguments.mode) if variant == "compiled" else model
        if device == "cuda":
            tt.cuda.reset_peak_memory_stats()
        with Progress(*columns, console=console) as progress:
            loss, speed, launches = train(
                model, forward, data, arguments.steps, arguments.seed, progress, variant
            )
        losses.append(loss)
        tokens, _ = batch_of(data, tt.Generator().manual_seed(0))
        if variant == "eager":
            ahead, back = Count(), Count()
            with ahead:
                logits = model(tokens)
            with back:
                logits.backward(tt.ones_like(logits))
            steps = [f"{ahead.calls} operators", f"{back.calls} operators"]
        else:
            explanation = tt.compiler.explain(model, tokens)
            steps = [f"{len(s.steps)} steps, {len(s.kernels)} fused" for s in explanation.schedules]
        on_gpu = [str(launches), f"{tt.cuda.max_memory_allocated() / 1e6:.1f}"] if device == "cuda" else []
        table.add_row(variant, f"{loss:.6f}", f"{speed:,.0f}", *steps, *on_gpu)
    console.print(table)
    print(f"losses are equal: {losses[0] == losses[1]}")
    if arguments.sample:
        print(write(model, "Love ", characters, arguments.sample, tt.Generator().manual_seed(arguments.seed)))


if __name__ == "__main__":
    main()
