"""An injected fault for each task of CONTRIBUTING.md: the tests that the task names must fail with it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from triten.tests.affected.tree import PACKAGE, ROOT, module_name

from .copies import Copy

COMMAND = re.compile(r'make\s+test\s+TESTS="([^"]*)"')


@dataclass(frozen=True)
class Task:
    """A task of CONTRIBUTING.md with a typical fault.

    Args:
        title: The start of the task's heading.
        file: The module that gets the fault, or the path of a YAML file.
        before: The text that is correct.
        after: The fault.
    """

    title: str
    file: str
    before: str
    after: str

    @property
    def path(self) -> str:
        """The file's path from the root, in either layout of the package."""
        if self.file.endswith(".yaml"):
            return self.file
        name = self.file.replace(".", "/")
        every = (f"{folder}{name}{end}" for folder in ("", f"{PACKAGE}/") for end in (".py", "/__init__.py"))
        path = next(each for each in every if (ROOT / each).is_file())
        assert module_name(path) == f"{PACKAGE}.{self.file}"
        return path

    @property
    def tests(self) -> tuple[str, ...]:
        """The arguments of pytest in the first `make test` of the task.

        Raises:
            LookupError: If CONTRIBUTING.md has no such task, or the task names no tests.
        """
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        _, found, section = text.partition(f"\n### {self.title}")
        command = COMMAND.search(re.split(r"\n##+ ", section)[0])
        if not found or command is None:
            raise LookupError(f"CONTRIBUTING.md: no task {self.title!r} with a `make test TESTS=...`")
        return tuple(shlex.split(command[1]))

    def planted(self) -> str:
        """Return the text of the file with the fault.

        Raises:
            LookupError: If the correct text is not there exactly once.
        """
        text = (ROOT / self.path).read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise LookupError(
                f"{self.path} has {text.count(self.before)} places {self.before!r}; adapt the task"
            )
        return text.replace(self.before, self.after)


TASKS = (
    Task(
        "Fix a kernel",
        "triton_kernels.normalization.softmax_kernels",
        "return (grad - total) * value",
        "return (grad + total) * value",
    ),
    Task(
        "Add an operator",
        "dispatch/derivatives.yaml",
        "self: grad * conjugated(result) * 0.6931471805599453",
        "self: grad * conjugated(result) * 0.6",
    ),
    Task(
        "Change the allocator's policy",
        "runtime.cuda.memory.block",
        "return block.size < size + OVERSIZE_SLACK",
        "return block.size <= size + OVERSIZE_SLACK",
    ),
    Task(
        "Add a dispatch key",
        "runtime.dispatch_key",
        "    Profiler = 14\n    AutocastFunctionality = 15\n",
        "    Profiler = 15\n    AutocastFunctionality = 14\n",
    ),
    Task(
        "Add a fusion",
        "compiler.passes.cross_entropy",
        "if set(pattern.softmax.users) != readers or (pattern.backward is None) != (gradient is None):",
        "if (pattern.backward is None) != (gradient is None):",
    ),
    Task(
        "Add a layer",
        "nn.modules.normalization",
        "return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)",
        "return F.layer_norm(input, self.normalized_shape, self.weight, self.bias)",
    ),
    Task(
        "Add a collective",
        "distributed.collectives",
        "if input.numel() != chosen.size() * output.numel():",
        "if input.numel() < chosen.size() * output.numel():",
    ),
    Task(
        "Add a target",
        "runtime.cuda.occupancy",
        '"RTX A6000", 84, 100 * KIB, 99 * KIB',
        '"RTX A6000", 84, 164 * KIB, 163 * KIB',
    ),
)


def killed_by(copy: Copy, task: Task) -> str | None:
    """Return the first named test that fails with a task's fault, or None."""
    with copy.fault(task.path, task.planted()):
        return copy.run(task.tests).failed
