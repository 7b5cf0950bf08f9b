"""The caching allocator keeps its invariants under any sequence of operations.

The operations run over a driver whose events the test completes, and over the interpreter, which finds misuse
of memory. `triten.tests.shared.allocator_model` has the model.
"""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triten.runtime.cuda.memory.options import AllocatorOptions
from triten.runtime.errors import OutOfMemoryError
from triten.tests.shared.allocator_model import SIZES, SMALL, STREAMS, HeldDriver, InterpretedDriver, Model

sizes = st.sampled_from(SIZES) | st.integers(1, 2**21)
devices, streams = st.integers(0, 1), st.sampled_from(STREAMS)
pools = st.sampled_from([(0, 1), (7, 0)])


class AllocatorMachine(RuleBasedStateMachine):
    @initialize(split=st.sampled_from([None, 25 * 2**20]), divisions=st.sampled_from([0, 0, 4]))
    def start(self, split, divisions):
        self.model = Model(AllocatorOptions(max_split_size=split, roundup_power2_divisions=divisions))

    @rule(nbytes=sizes, device=devices, stream=streams)
    def malloc(self, nbytes, device, stream):
        self.model.malloc(nbytes, device, stream)

    @rule(nbytes=sizes, device=devices, stream=streams, count=st.integers(2, 6))
    def again(self, nbytes, device, stream, count):
        for _ in range(count):
            self.model.malloc(nbytes, device, stream)
            self.model.free(-1)

    @precondition(lambda self: self.model.live)
    @rule(index=st.integers(0, 100))
    def free(self, index):
        self.model.free(index)

    @precondition(lambda self: self.model.live)
    @rule(index=st.integers(0, 100), stream=streams)
    def use(self, index, stream):
        self.model.use(index, stream)

    @rule(device=devices, stream=streams)
    def complete(self, device, stream):
        self.model.cuda.complete(device, stream)

    @rule()
    def empty(self):
        self.model.empty()

    @rule(nbytes=sizes, device=devices, stream=streams, refusals=st.integers(1, 2))
    def fail(self, nbytes, device, stream, refusals):
        self.model.cuda.refuse = refusals
        self.model.fail(nbytes, device, stream)

    @rule(device=devices, pool=pools, streams=st.sets(streams))
    def begin(self, device, pool, streams):
        self.model.begin(device, pool, streams)

    @precondition(lambda self: self.model.open)
    @rule()
    def end(self):
        self.model.end()

    @rule()
    def release(self):
        self.model.release()

    @precondition(lambda self: not self.model.open)
    @rule(seed=st.integers(0, 1000))
    def in_threads(self, seed):
        self.model.in_threads(seed)

    @invariant()
    def holds(self):
        if hasattr(self, "model"):
            self.model.check()

    def teardown(self):
        if hasattr(self, "model"):
            self.model.finish()


AllocatorMachine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnySequence = AllocatorMachine.TestCase


@pytest.mark.parametrize(("driver", "steps"), [(HeldDriver, 5_000), (InterpretedDriver, 500)])
def test_thousands_of_random_steps(driver, steps):
    rng = random.Random(0)
    model = Model(driver=driver)

    def place():
        return rng.randrange(2), rng.choice(STREAMS)

    def size():
        return rng.choice(SIZES[:SMALL]) if rng.random() < 0.8 else rng.choice(SIZES)

    for step in range(steps):
        action = rng.random()
        if action < 0.45 and len(model.live) < 30:
            try:
                model.malloc(size(), *place())
            except OutOfMemoryError:
                assert model.open or len(model.live) > 3
                model.live.clear()
        elif action < 0.75 and model.live:
            model.free(rng.randrange(100))
        elif action < 0.85 and model.live:
            model.use(rng.randrange(100), rng.choice(STREAMS))
        elif action < 0.9:
            model.cuda.complete(*place())
        elif action < 0.91:
            model.empty()
        elif action < 0.92:
            model.cuda.refuse = rng.randint(1, 2)
            model.fail(size(), *place())
        elif action < 0.94:
            model.begin(rng.randrange(2), rng.choice([(0, 1), (7, 0)]), {rng.choice(STREAMS)})
        elif action < 0.98 and model.open:
            model.end()
        elif action < 0.985:
            model.release()
        elif action < 0.987 and not model.open:
            model.in_threads(step)
        if step % 4 == 0 or action > 0.9:
            model.check()
    model.finish()
