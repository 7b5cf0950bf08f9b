"""Random steps on the caching allocators; every invariant is checked after each step.

The models are those of the tests. `triten.tests.shared.allocator_model` models a GPU's memory, over a driver
whose streams advance on request and over the interpreter. `pinned_model` models page-locked memory. A case is
a list of steps. A step that does not apply (a free without live allocations) is skipped, so every sublist of
a case is a case.
"""

import gc
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from triten.runtime.cuda.memory.options import AllocatorOptions
from triten.runtime.errors import OutOfMemoryError
from triten.tests.shared.allocator_model import (
    SIZES,
    SMALL,
    STREAMS,
    TOTAL,
    HeldDriver,
    InterpretedDriver,
    Model,
)
from triten.tests.shared.pinned_model import PinnedModel

from ..campaign import AGREED, INTERPRETED, Campaign, Case, Finding, Outcome

STEPS = 1000
MAX_LIVE = 20
POOLS = ((0, 1), (7, 0))
DRIVERS = {"held": HeldDriver, "interpreted": InterpretedDriver}

# How often each step is drawn, of 1000; `in_threads` is itself two hundred requests.
DEVICE_STEPS = {
    "malloc": 420,
    "free": 320,
    "use": 90,
    "complete": 60,
    "begin": 20,
    "end": 40,
    "release": 8,
    "empty": 10,
    "fail": 10,
    "limit": 8,
    "reset_peaks": 5,
    "record": 5,
    "again": 8,
    "in_threads": 1,
}
PINNED_STEPS = {"malloc": 400, "free": 300, "copy": 150, "step": 140, "empty": 10}
NEED_LIVE = {"free", "use", "copy"}


def _size(rng: random.Random) -> int:
    if rng.random() < 0.2:
        return rng.randrange(1, 2**21)
    return rng.choice(SIZES[:SMALL]) if rng.random() < 0.8 else rng.choice(SIZES)


def _arguments(name: str, rng: random.Random) -> list[Any]:
    place = [rng.randrange(2), rng.choice(STREAMS)]
    match name:
        case "malloc" | "again":
            return [_size(rng), *place]
        case "fail":
            return [rng.randint(1, 2), _size(rng), *place]
        case "free":
            return [rng.randrange(100)]
        case "use":
            return [rng.randrange(100), rng.choice(STREAMS)]
        case "complete":
            return place
        case "begin":
            return [rng.randrange(2), rng.choice(POOLS), [rng.choice(STREAMS)]]
        case "limit":
            return [rng.randrange(2), rng.choice([0.05, 0.2, 0.5, 1.0])]
        case "reset_peaks":
            return [rng.randrange(2)]
        case "record":
            return [rng.choice([None, "state", "all"])]
        case "in_threads":
            return [rng.randrange(1000)]
        case _:
            return []


def _pinned_arguments(name: str, rng: random.Random) -> list[Any]:
    match name:
        case "malloc":
            return [rng.randrange(1, 5000)]
        case "free":
            return [rng.randrange(100)]
        case "copy":
            return [rng.randrange(100), rng.randrange(2)]
        case "step":
            return [rng.randrange(2)]
        case _:
            return []


def _take(model: Any, name: str, arguments: list[Any]) -> None:
    """Apply one step to a GPU's model."""
    match name, arguments:
        case "malloc", _:
            try:
                model.malloc(*arguments)
            except OutOfMemoryError:
                model.live.clear()
        case "again", (nbytes, device, stream):
            for _ in range(3):
                try:
                    model.malloc(nbytes, device, stream)
                except OutOfMemoryError:
                    return
                model.free(-1)
        case "fail", (refusals, *rest):
            model.cuda.refuse = refusals
            try:
                model.fail(*rest)
            except OutOfMemoryError:
                model.live.clear()  # even the small request found none: the limit is reached
        case "complete", place:
            model.cuda.complete(*place)
        case "begin", (device, pool, streams):
            model.begin(device, tuple(pool), set(streams))
        case _:
            getattr(model, name)(*arguments)


class Allocators(Campaign):
    name = "allocator"
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
    limit = 120.0

    def prepare(self) -> None:
        gc.collect()
        gc.freeze()  # an allocator that runs out of memory collects

    def draw(self, rng: random.Random) -> Case:
        kind = rng.choices(["held", "interpreted", "pinned"], [60, 10, 30])[0]
        table, arguments = (
            (PINNED_STEPS, _pinned_arguments) if kind == "pinned" else (DEVICE_STEPS, _arguments)
        )
        names = rng.choices([*table], [*table.values()], k=STEPS)
        options = {
            "max_split_size": rng.choice([None, None, 25 * 2**20]),
            "garbage_collection_threshold": rng.choice([None, None, 0.6]),
            "roundup_power2_divisions": rng.choice([0, 0, 4]),
        }
        return {"kind": kind, "options": options, "steps": [[name, *arguments(name, rng)] for name in names]}

    def run(self, case: Case) -> Outcome:
        on_device = case["kind"] != "pinned"
        model = (
            Model(AllocatorOptions(**case["options"]), DRIVERS[case["kind"]]) if on_device else PinnedModel()
        )
        for number, (name, *arguments) in enumerate(case["steps"]):
            if (
                (name in NEED_LIVE and not model.live)
                or (name == "malloc" and len(model.live) >= MAX_LIVE)
                or (name == "end" and not model.open)
                or (name == "in_threads" and (model.open or min(model.ceilings) < TOTAL))
            ):
                continue
            try:
                if on_device:
                    _take(model, name, arguments)
                else:
                    getattr(model, name)(*arguments)
                model.check()
            except AssertionError as error:
                return Finding("broken invariant", f"after {name}: {error or 'no words'}, step {number}")
        try:
            model.finish()
        except AssertionError as error:
            return Finding("broken invariant", f"at the end: {error}")
        return AGREED

    def smaller(self, case: Case) -> Iterator[Case]:
        steps = case["steps"]
        width = len(steps) // 2
        while width:
            for start in range(0, len(steps), width):
                yield case | {"steps": steps[:start] + steps[start + width :]}
            width //= 2

    def describe(self, case: Case) -> str:
        return (
            "from triten.tests.fuzz.campaigns.allocator import Allocators\n"
            f"print(Allocators().run({json.dumps(case).replace('null', 'None')}))"
        )
