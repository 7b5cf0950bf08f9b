"""The fuzz target of faults detects injected faults in actions and writers, and reports none in a few of the
library's.
"""

import os

import pytest

import triten as tt
from triten.tests.fuzz.campaign import AGREED, Finding
from triten.tests.fuzz.campaigns.faults import Faults
from triten.tests.fuzz.faults import actions, disturbed, writers
from triten.tests.fuzz.faults.actions import MODELS, Action
from triten.tests.fuzz.faults.writers import NAME, Writer

kept = []


def _leaves_grad_mode(training):
    tt.set_grad_enabled(False)
    y = training.batch[0] * 2
    tt.set_grad_enabled(True)
    return y


def _keeps_memory(training):
    kept.append(tt.empty(100))
    made = training.batch[0] * 2
    kept.pop()
    return made


def _swallows(training):
    try:
        return training.batch[0] + 1
    except MemoryError:
        return training.batch[0]


def _translates(training):
    try:
        return training.batch[0] + 1
    except MemoryError:
        raise ValueError("lost") from None


def _writes_first(training):
    with tt.no_grad():
        training.model[0].weight.add_(1.0)
        y = training.batch[0] + 1
        training.model[0].weight.sub_(1.0)
    return y


PLANTED = {
    "state left": (_leaves_grad_mode, 0),
    "leak": (_keeps_memory, 0),
    "error lost": (_swallows, 0),
    "other error": (_translates, 0),
    "operand changed": (_writes_first, 1),
}


@pytest.fixture
def faulty(monkeypatch):
    """faulty(act): a `Disturbed` of that action."""
    with disturbed.Injectors("cpu") as injectors:

        def of(act):
            monkeypatch.setitem(actions.ACTIONS, "planted", Action(MODELS["mlp"], act))
            return disturbed.Disturbed("planted", injectors)

        yield of
    kept.clear()
    tt.set_grad_enabled(True)


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_actions(faulty, kind):
    act, at = PLANTED[kind]
    outcome = faulty(act).disturb("kernel", at)
    assert isinstance(outcome, Finding) and outcome.kind == kind, outcome


@pytest.mark.parametrize("fault", disturbed.FAULTS)
def test_a_few_moments_of_a_step(fault):
    with disturbed.Injectors("cpu") as injectors:
        step = disturbed.Disturbed("step of mlp", injectors)
        assert [step.disturb(fault, at) for at in (3, 200)] == [AGREED] * 2


def _in_place(folder, number):
    with open(folder / NAME, "w") as file:
        for _ in range(300):
            file.write(str(number) * 10)
            file.flush()


def _beside(folder, number):
    (folder / "beside").write_text(str(number) * 3000)
    os.replace(folder / "beside", folder / NAME)


def test_planted_writers(monkeypatch):
    monkeypatch.setattr(writers, "_counts", {})
    read = lambda folder: (folder / NAME).read_text()  # noqa: E731
    monkeypatch.setitem(writers.WRITERS, "in place", Writer(_in_place, read))
    monkeypatch.setitem(writers.WRITERS, "beside", Writer(_beside, read))
    monkeypatch.setitem(writers.WRITERS, "silent", Writer(lambda *_: None, lambda folder: 1))
    assert writers.disturb("in place", "kill", 300).kind == "half a file"
    assert writers.disturb("in place", "room", 1000).kind == "half a file"
    assert writers.disturb("beside", "kill", -2) == AGREED
    assert writers.disturb("beside", "room", 1000).kind == "leftover"


@pytest.mark.parametrize("name", writers.WRITERS)
def test_a_few_moments_of_a_writer(name):
    for fault, at in (("kill", -5), ("kill", -30), ("room", 700), ("room", 5000)):
        assert writers.disturb(name, fault, at) == AGREED


def test_a_case_is_run_again_and_leaves_nothing():
    case = {"action": "backward of mlp", "fault": "allocation", "at": 5}
    assert Faults().replay(case) == AGREED
    assert tt.library.get_allocator("cpu") is not None
