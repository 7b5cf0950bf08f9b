"""Long training runs: memory, objects, plans and the allocator's statistics do not grow with the steps.

A case is a program and a number of steps. The run records the process's resources after each eighth of the
steps. It reports growth if the last two parts exceed the earlier half. For millions of steps: ``python -P -m
triten.tests.fuzz.campaigns.endurance --steps 1000000 --program eager``.
"""

import argparse
import contextlib
import gc
import io
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import triten as tt
from triten.dispatch.core.overload_packet import clear_plans

from ..campaign import AGREED, INTERPRETED, Campaign, Case, Finding, Outcome

PARTS = 8
Step = Callable[[int], Any]

TABLES_ALLOWED = 40_000
"""The same where shapes vary, with `SMALL_TABLES`: their entries, and 4096 of each `functools.lru_cache`."""

BLOCKS_ALLOWED = 200
"""Python's blocks that a part may hold beyond another: the interpreter's own lists, and lines of warnings."""

RESIDENT_ALLOWED = 24 << 20
"""Bytes: what the host's allocator keeps of what it was given back differs by this much at most."""


@dataclass
class Held:
    """Resources that a process holds."""

    blocks: int
    objects: int
    resident: int
    device_bytes: int
    device_blocks: int

    @classmethod
    def now(cls, device: str) -> "Held":
        # Python's own cache of attributes keeps up to 4096 names that were made anew, as pickles' are.
        getattr(sys, "_clear_internal_caches", getattr(sys, "_clear_type_cache", int))()
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1]) if sys.platform == "linux" else 0
        on_device = device == "cuda"
        stats = tt.cuda.memory_stats() if on_device else {}
        return cls(
            sys.getallocatedblocks(),
            len(gc.get_objects()),
            pages * 4096,
            stats.get("allocated_bytes.all.current", 0),
            stats.get("active.all.current", 0),
        )


@dataclass(frozen=True)
class Program:
    """Makes a function of a step's number; `device` is where its tensors live, `steps` how many a drawn case takes."""

    make: Callable[[str], Step]
    steps: int
    device: str = "cpu"
    bounded_blocks: int = BLOCKS_ALLOWED
    """Blocks by which the program may fluctuate: plan caches grow and shrink with varying shapes."""


SMALL_TABLES = {"MAX_PLANS": 64, "MAX_SPECS": 512, "MAX_RUNS": 8, "MAX_GRAPHS": 8, "SIZES": 8}


@contextlib.contextmanager
def small_tables() -> Iterator[None]:
    """Shrink the bounds of plan caches, so that a few steps reach them."""
    modules = [module for name, module in [*sys.modules.items()] if name.startswith("triten.")]
    before = [
        (module, name, vars(module)[name])
        for module in modules
        for name in SMALL_TABLES
        if name in vars(module)
    ]
    for module, name, _ in before:
        setattr(module, name, SMALL_TABLES[name])
    clear_plans()
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _model(device: str) -> tuple[Any, Any]:
    tt.manual_seed(0)
    model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Dropout(0.1), tt.nn.Linear(8, 1)).to(
        device
    )
    return model, tt.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def eager(device: str) -> Step:
    model, optimizer = _model(device)
    x, y = tt.randn(16, 4, device=device), tt.randn(16, 1, device=device)

    def step(number: int) -> None:
        optimizer.zero_grad()
        loss = tt.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def compiled(device: str) -> Step:
    model, optimizer = _model(device)
    x, y = tt.randn(16, 4, device=device), tt.randn(16, 1, device=device)
    loss_of = tt.compile(lambda x, y: tt.nn.functional.mse_loss(model(x), y))

    def step(number: int) -> None:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()

    return step


def shapes(device: str) -> Step:
    """Return a step that uses a new shape nearly every time, so plans are made and evicted."""
    model, optimizer = _model(device)

    def step(number: int) -> None:
        rows, columns = 1 + number % 97, 1 + number // 97 % 89
        optimizer.zero_grad()
        x = tt.ones(rows, columns, 4, device=device)
        out = model(x)[..., 0]
        (out.softmax(-1) * out).sum(0).square().mean().backward()
        optimizer.step()

    return step


def compiled_shapes(device: str) -> Step:
    f = tt.compile(lambda x: (x.sin() * 2 + x).sum(-1))

    def step(number: int) -> None:
        x = tt.ones(1 + number % 61, 1 + number // 61 % 67, device=device, requires_grad=True)
        f(x).sum().backward()

    return step


def refusals(device: str) -> Step:
    """Return a step with errors, their tracebacks, and half-finished graphs."""
    model, _ = _model(device)
    x = tt.ones(2, 4, device=device)

    def step(number: int) -> None:
        out = model(x)
        for wrong in (
            lambda: out @ x @ x,
            lambda: out.view(3, 5),
            lambda: tt.cat([out, x], 2),
            lambda: out.sum().backward(tt.ones(3)),
            lambda: tt.ones(2).to("nowhere"),
            lambda: model.load_state_dict({}),
        ):
            try:
                wrong()
            except (RuntimeError, IndexError, ValueError):
                continue
            raise AssertionError("a wrong call was not refused")

    return step


def features(device: str) -> Step:
    """Return a step that uses features with cleanup: hooks, modes, functions, views, random states, files."""
    model, _ = _model(device)
    x = tt.ones(3, 4, device=device)

    class Double(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 + ctx.saved_tensors[0] * 0

    def step(number: int) -> None:
        handle = model.register_forward_hook(lambda module, given, out: out + 1)
        with tt.random.fork_rng(devices=[]), tt.autocast(device, dtype=tt.bfloat16):
            model(x)
        handle.remove()
        w = x.clone().requires_grad_()
        w.register_hook(lambda grad: grad * 2)
        out = Double.apply(w)[1:, ::2].T
        tt.autograd.grad(out.sum(), w, create_graph=True)[0].sum()
        tt.func.vmap(tt.func.grad(lambda a: (a * a).sum()))(x)
        file = io.BytesIO()
        tt.save(model.state_dict(), file)
        file.seek(0)
        model.load_state_dict(tt.load(file))
        tt.utils.data.DataLoader(tt.utils.data.TensorDataset(x), batch_size=2).__iter__().__next__()

    return step


PROGRAMS = {
    "eager": Program(eager, 4000),
    "compiled": Program(compiled, 4000),
    "shapes": Program(shapes, 6000, bounded_blocks=TABLES_ALLOWED),
    "compiled_shapes": Program(compiled_shapes, 3000, bounded_blocks=TABLES_ALLOWED),
    "refusals": Program(refusals, 1000),
    "features": Program(features, 400),
    "eager_cuda": Program(eager, 160, "cuda", TABLES_ALLOWED),
    "compiled_cuda": Program(compiled, 300, "cuda", TABLES_ALLOWED),
}


def parts(program: Program, steps: int) -> Iterator[Held]:
    """Yield the held resources after each part of the steps; the first part includes one-time allocations."""
    step = program.make(program.device)
    step(0)  # imports what it needs
    with small_tables() if program.bounded_blocks != BLOCKS_ALLOWED else contextlib.nullcontext():
        for part in range(PARTS):
            for number in range(steps * part // PARTS, steps * (part + 1) // PARTS):
                step(number)
            yield Held.now(program.device)


def growth(program: Program, held: list[Held]) -> str:
    """Describe the growth of both last parts over the earlier half, without its first part; empty if none."""
    allowed = Held(program.bounded_blocks, program.bounded_blocks, RESIDENT_ALLOWED, 0, 0)
    half = PARTS // 2
    found = []
    for name in (field.name for field in fields(Held)):
        values = [getattr(each, name) for each in held]
        before, after = max(values[1:half]), min(values[-2:])
        if after - before > getattr(allowed, name):
            found.append(f"{name} grew: {values}")
    return "; ".join(found)


class Endurance(Campaign):
    name = "endurance"
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
    limit = 900.0

    def draw(self, rng: random.Random) -> Case:
        name = rng.choice([*PROGRAMS])
        return {"program": name, "steps": round(PROGRAMS[name].steps * rng.uniform(0.7, 1.3))}

    def run(self, case: Case) -> Outcome:
        program = PROGRAMS[case["program"]]
        clear_plans()
        grown = growth(program, [*parts(program, case["steps"])])
        return Finding("growth", f"{case['program']}: {grown}") if grown else AGREED

    def smaller(self, case: Case) -> Iterator[Case]:
        if case["steps"] >= 2 * PARTS:
            yield case | {"steps": case["steps"] // 2}

    def describe(self, case: Case) -> str:
        return (
            "python -P -m triten.tests.fuzz.campaigns.endurance "
            f"--program {case['program']} --steps {case['steps']}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=[*PROGRAMS], default="eager")
    parser.add_argument("--steps", type=int, default=1_000_000)
    chosen = parser.parse_args()
    program, begun = PROGRAMS[chosen.program], time.monotonic()
    held = []
    for each in parts(program, chosen.steps):
        held.append(each)
        print(
            f"{chosen.steps * len(held) // PARTS} steps, {time.monotonic() - begun:.0f} s: {each}", flush=True
        )
    grown = growth(program, held)
    print(grown or "nothing grew")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
