"""The fuzz targets of allocators, threads and long runs pass on the library and detect injected faults."""

import random

import pytest

import triten as tt
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.tests.fuzz.campaign import AGREED, Finding
from triten.tests.fuzz.campaigns import campaign_named, endurance, threads
from triten.tests.fuzz.campaigns.endurance import PARTS, Held, Program, growth

pytest.importorskip("triton", reason="triton has no wheel for this platform")


def short_case(kind, count=60):
    """Return the first steps of a random case of one kind of allocator."""
    campaign = campaign_named("allocator")
    cases = (campaign.draw(random.Random(seed)) for seed in range(100))
    case = next(case for case in cases if case["kind"] == kind)
    return case | {"steps": case["steps"][:count]}


@pytest.mark.parametrize("kind", ["held", "interpreted", "pinned"])
def test_allocators_hold_after_each_step(kind):
    assert campaign_named("allocator").run(short_case(kind)) is AGREED


def test_memory_that_a_stream_still_uses_is_found(monkeypatch):
    monkeypatch.setattr(CachingAllocator, "record_stream", lambda self, data, stream: None)
    steps = [["malloc", 512, 0, 0], ["use", 0, 1], ["free", 0], ["malloc", 512, 0, 0]]
    case = {"kind": "held", "options": {}, "steps": [["complete", 0, 0], *steps, ["empty"]]}
    campaign = campaign_named("allocator")
    found = campaign.run(case)
    assert isinstance(found, Finding) and "is still used on" in found.message
    smaller = [each["steps"] for each in campaign.smaller(case)]
    assert [*steps, ["empty"]] in smaller and [["complete", 0, 0], *steps] in smaller


CASE = {"device": "cpu", "threads": 2, "length": 2, "seed": 5}
QUICK = sorted({*threads.SCENES} - {"compiled"})  # compiling with threads that change so often takes seconds


@pytest.mark.parametrize("scene", QUICK)
def test_threads_have_the_results_of_one(scene):
    disturb = ["register", "forget", "collect"][len(scene) % 3]
    assert campaign_named("threads").run({**CASE, "scene": scene, "disturb": disturb}) is AGREED


def test_threads_with_other_results_are_found(monkeypatch):
    shared = []

    def scene(case):
        shared.clear()
        return [lambda: shared.append(None) or len(shared) * int(case["at_once"])] * case["threads"]

    monkeypatch.setitem(threads.SCENES, "counting", scene)
    found = campaign_named("threads").run({**CASE, "scene": "counting", "disturb": "nothing"})
    assert isinstance(found, Finding) and found.kind == "wrong value"


@pytest.mark.parametrize("name", ["eager", "refusals"])
def test_training_does_not_grow(name):
    assert campaign_named("endurance").run({"program": name, "steps": 8 * PARTS}) is AGREED


def test_what_a_step_leaves_behind_is_found(monkeypatch):
    left = []
    program = Program(lambda device: lambda number: left.extend([tt.ones(1), object()]), 10)
    monkeypatch.setitem(endurance.PROGRAMS, "leaking", program)
    found = campaign_named("endurance").run({"program": "leaking", "steps": 60 * PARTS})
    assert isinstance(found, Finding) and "blocks grew" in found.message


def test_growth_is_what_the_last_parts_hold_beyond_the_earlier_half():
    program = endurance.PROGRAMS["eager"]
    flat = [Held(100_000 + n, 0, 0, 512, 1) for n in range(PARTS)]
    assert growth(program, flat) == ""
    flat[-1].device_bytes = 1024
    assert growth(program, flat) == "", "one part may be above the others"
    for each in flat[PARTS // 2 :]:
        each.device_bytes = 1024
    assert "device_bytes grew" in growth(program, flat)
