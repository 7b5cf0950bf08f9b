"""A program of our own for the harness, and what PyTorch makes of it: `small_results.json`.

Written anew by a Python that has PyTorch and triten: ``python -P tests/perf/programs/small_program.py``.
"""

import json
import sys
from pathlib import Path

import numpy as np

from triten.perf.programs.contest import Worker, build
from triten.perf.programs.program import Program

RECORD = Path(__file__).with_name("small_results.json")
SECONDS = 300.0

SMALL = Program(
    "small",
    "",
    """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, words, noise):
        x = self.embedding(words) + noise + 0.1 * torch.randn_like(noise)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return {"scores": self.head(x), "best": self.head(x).argmax(-1)}

model = Model()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(normal(*parameter.shape))
""",
    inputs="(integers(10, 2, 5), normal(2, 5, 8))",
    optimizer="torch.optim.SGD(parameters, lr=0.1, momentum=0.9)",
    draws=True,
)


def results(command: list[str], folder: Path) -> dict[str, np.ndarray]:
    """Return the results that a library's worker process writes for the program."""
    with Worker(command, None, SECONDS) as worker:
        build(worker, SMALL, folder, make_weights=True)
        worker.ask("results", file=str(folder / "results.npz"))
        assert worker.ask("steps", count=2)["seconds"] > 0
    return dict(np.load(folder / "results.npz"))


def read_record() -> dict[str, np.ndarray]:
    """Return PyTorch's results."""
    return {
        name: np.array(each["values"], dtype=each["dtype"])
        for name, each in json.loads(RECORD.read_text()).items()
    }


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        found = results([sys.executable, "-P"], Path(made))
    record = {name: {"dtype": str(each.dtype), "values": each.tolist()} for name, each in found.items()}
    RECORD.write_text(
        "{\n" + ",\n".join(f'"{name}": {json.dumps(each)}' for name, each in record.items()) + "\n}\n"
    )
