"""Process of one rank: ``python rank_process.py LIBRARY BACKEND RANK RANKS FILE``.

It reads commands from its standard input, one JSON object per line, and answers each with a line; `ranks`
sends them. It imports the library, triten or PyTorch, by its name, and nothing of the other one.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

READY = "ready"


class Rank:
    """Commands of a rank, with one library's `distributed`."""

    def __init__(self, library: str, backend: str, rank: int, ranks: int, file: str) -> None:
        self.library: Any = importlib.import_module(library)
        self.distributed: Any = importlib.import_module(f"{library}.distributed")
        self.ranks = ranks
        self.library.set_num_threads(1)
        self.distributed.init_process_group(
            backend, init_method=f"file://{file}", rank=rank, world_size=ranks
        )
        self.run: Callable[[], object] = self.distributed.barrier

    def prepare(self, collective: str, nbytes: int) -> list[float]:
        """Allocate the operands of a float32 collective, run it once, and return minimum and maximum of its result.

        `nbytes` is the size of the whole tensor; each rank gets at least one element.
        """
        ones, empty, distributed = self.library.ones, self.library.empty, self.distributed
        count = max(1, nbytes // 4)
        part = max(1, count // self.ranks)
        whole = part * self.ranks
        if collective == "all_reduce":
            result, zeros = ones(count) * (distributed.get_rank() + 1.0), ones(count) * 0.0
            distributed.all_reduce(result)
            self.run = lambda: distributed.all_reduce(zeros)  # sums of zeros, however often, do not grow
        elif collective == "broadcast":
            result = ones(count) * (1.0 if distributed.get_rank() == 0 else 0.0)
            self.run = lambda: distributed.broadcast(result, 0)
        elif collective == "all_gather":
            operand, result = ones(part) * (distributed.get_rank() + 1.0), empty(whole)
            self.run = lambda: distributed.all_gather_into_tensor(result, operand)
        elif collective == "reduce_scatter":
            operand, result = ones(whole), empty(part)
            self.run = lambda: distributed.reduce_scatter_tensor(result, operand)
        elif collective == "all_to_all":
            operand, result = ones(whole) * (distributed.get_rank() + 1.0), empty(whole)
            self.run = lambda: distributed.all_to_all_single(result, operand)
        else:
            raise ValueError(f"prepare: no collective is called {collective!r}")
        self.run()
        return [float(result.min()), float(result.max())]

    def repeat(self, count: int) -> float:
        """Seconds of so many collectives, which all ranks begin together."""
        run = self.run
        self.distributed.barrier()
        start = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - start

    def call(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """Call a function of a module (``module:name``)."""
        module, _, name = function.partition(":")
        return getattr(importlib.import_module(module), name)(**arguments)


def main() -> None:
    """Answer commands until there are no more."""
    library, backend, rank, ranks, file = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    process = Rank(library, backend, int(rank), int(ranks), file)
    print(json.dumps(READY), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(process, command.pop("do"))(**command)
        print(json.dumps(answer), file=answers, flush=True)
    process.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
