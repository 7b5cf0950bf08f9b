"""The tests that a task of CONTRIBUTING.md names fail with the task's injected fault."""

from __future__ import annotations

import zlib

import pytest

from triten.tests.affected.tree import ROOT
from triten.tests.mutation.copies import Copy
from triten.tests.mutation.tasks import TASKS, Task, killed_by

PLANTED = 1
"""Tasks that each run plants; `make mutants TASKS=1` plants all."""


def of_today() -> list[Task]:
    """Return the tasks to plant: another choice once a file of one of them changes."""
    texts = b"".join((ROOT / task.path).read_bytes() for task in TASKS)
    return sorted(TASKS, key=lambda task: zlib.crc32(task.title.encode() + texts))[:PLANTED]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
def test_a_task_names_tests_that_exist_and_its_fault_can_be_planted(task: Task) -> None:
    paths = [each for each in task.tests if each.startswith("tests/")]
    assert paths and all((ROOT / each).exists() for each in paths)
    assert task.planted() != (ROOT / task.path).read_text()


def test_the_named_tests_find_planted_faults(tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = Copy(tmp_path_factory.mktemp("copy"))
    for task in of_today():
        failed = killed_by(copy, task)
        assert failed and "::" in failed, (
            f"{task.title}: {task.tests} pass with {task.after!r} in {task.path}"
        )
