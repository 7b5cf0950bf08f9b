"""Test files in order of their relevance for a change, up to a budget of CPU time."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .changes import Change
from .operators import OperatorTables
from .tree import PACKAGE, WORD, Source, Tree

HERE = Path(__file__).resolve().parent
BUDGET = 300.0
"""CPU seconds: two cores take less than three minutes, collection included."""
UNKNOWN_COST = 4.0
"""CPU seconds of a file that has not been measured: the mean."""
LONG = 12.0
"""Files that take more CPU seconds run only the tests whose names contain an affected name, if there are any."""
MIN_SCORE = 0.35
STEP = 0.8
"""The weight of a definition that mentions another, relative to that one's."""
MIN_WEIGHT = 0.3
CORE_SHARE = 0.4
"""A module on which more than this share of the package depends is a core module."""
TABLE_FOLDERS = {
    "docs": "tests/docs/",
    "examples": "tests/examples/",
    ".ci": "tests/test_packaging.py",
    "Makefile": "tests/test_packaging.py",
    "pyproject.toml": "tests/test_packaging.py",
    "setup.py": "tests/test_packaging.py",
    "CONTRIBUTING.md": "tests/docs/",
    "README.md": "tests/docs/",
}
"""Tests of files that are no modules."""


@dataclass(frozen=True)
class Selection:
    """Tests that a change reaches.

    `files` are paths from the root, the most relevant first. `names` are operators and definitions: a long file
    runs the tests that name one of them. `seconds` estimates the CPU time, and `left_out` counts the relevant
    files beyond the budget.
    """

    files: tuple[str, ...]
    names: tuple[str, ...]
    seconds: float
    left_out: int
    core: bool


def costs() -> dict[str, float]:
    """Return the CPU seconds of each test file that has been measured."""
    found: dict[str, float] = json.loads((HERE / "costs.json").read_text())
    return found


def quick_files() -> tuple[str, ...]:
    """Return the representative test files that `make test-quick` runs."""
    lines = (line.partition("#")[0].strip() for line in (HERE / "quick.txt").read_text().splitlines())
    return tuple(line for line in lines if line)


class Selector:
    """Selection of tests in one checkout.

    Args:
        tree: The checkout's modules.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.costs = costs()

    @cached_property
    def operators(self) -> OperatorTables:
        """The tables of operators, which only changes of code need."""
        return OperatorTables(self.tree)

    @cached_property
    def _rarity(self) -> dict[str, float]:
        """The inverse document frequency of each word in the tests, 1 for a word of a single file."""
        counts = Counter(word for test in self.tree.tests.values() for word in test.words)
        total = math.log(len(self.tree.tests) + 1)
        return {word: 1 - math.log(count) / total for word, count in counts.items()}

    @cached_property
    def _path_rarity(self) -> dict[str, float]:
        counts = Counter(word for path in self.tree.tests for word in path_words(path))
        total = math.log(len(self.tree.tests) + 1)
        return {word: 1 - math.log(count) / total for word, count in counts.items()}

    def select(self, changes: Iterable[Change], budget: float = BUDGET) -> Selection:
        """Return the tests that changes reach, as many as `budget` CPU seconds allow."""
        scores: defaultdict[str, float] = defaultdict(float)
        names: dict[str, float] = {}
        core = False
        for change in changes:
            own, words, is_core = self._reach(change)
            core |= is_core
            for path, score in own.items():
                scores[path] = max(scores[path], score)
            for word, weight in words.items():
                names[word] = max(names.get(word, 0.0), weight)
        order = sorted(scores, key=lambda path: (-scores[path], path))
        relevant = [path for path in order if scores[path] >= MIN_SCORE]
        if core:
            # Half of the budget stays for tests of the module itself.
            relevant = list(
                dict.fromkeys([*self._within(relevant, budget / 2)[0], *quick_files(), *relevant])
            )
        files, seconds = self._within(relevant, budget)
        strong = sorted(word for word, weight in names.items() if weight >= 0.5 and len(word) > 1)
        return Selection(tuple(files), tuple(strong), seconds, len(relevant) - len(files), core)

    def _within(self, order: Sequence[str], budget: float) -> tuple[list[str], float]:
        taken, seconds = [], 0.0
        for path in order:
            cost = min(self.costs.get(path, UNKNOWN_COST), 1.5 * LONG)
            if seconds + cost <= budget or not taken:
                taken.append(path)
                seconds += cost
        return taken, seconds

    def _reach(self, change: Change) -> tuple[dict[str, float], dict[str, float], bool]:
        path, root = change.path, self.tree.root
        if path in self.tree.tests:
            return {path: 10.0}, {}, False
        if path.startswith("tests/") and path.endswith("conftest.py"):
            folder = path.rpartition("/")[0]
            return (
                {each: 1.0 for each in self.tree.tests if each.startswith(f"{folder}/")},
                {},
                folder == "tests",
            )
        if path.startswith("dispatch/") and path.endswith(".yaml"):
            operators = self.operators.entries(path, change.lines) if (root / path).exists() else set()
            words = self.operators.with_callers(dict.fromkeys(operators, 1.0))
            scores = self._by_words(words)
            for each in self.tree.tests:
                if each.startswith("tests/dispatch/codegen/"):
                    scores[each] = scores.get(each, 0.0) + 0.5
            return scores, words, not operators
        source = self.tree.sources.get(path)
        if source is None:
            for start, tests in TABLE_FOLDERS.items():
                if path == start or path.startswith(f"{start}/"):
                    return {each: 1.0 for each in self.tree.tests if each.startswith(tests)}, {}, False
            return self._by_path(path), {}, False
        return self._of_module(source, change.lines)

    def _of_module(
        self, source: Source, lines: Sequence[int]
    ) -> tuple[dict[str, float], dict[str, float], bool]:
        distances = self.tree.dependents(source.module)
        package = [each for each in distances if not each.startswith(f"{PACKAGE}.tests.")]
        modules = sum(not path.startswith("tests/") for path in self.tree.sources)
        is_core = len(package) > CORE_SHARE * modules
        # From a core module the search would reach every name.
        names = reached_names(source, changed_names(source, lines))
        reached = {source.module: names} if is_core else self.reached(source, names)
        words = self.operators.with_callers(self.operators.served(reached))
        for names in reached.values():
            for name, weight in names.items():
                words[name] = max(words.get(name, 0.0), weight)
        scores = defaultdict(float, self._by_words(words))
        for path, score in self._by_path(source.path).items():
            scores[path] += score
        for path, test in self.tree.tests.items():
            distance = distances.get(test.module)
            if distance is not None and distance <= 3:
                scores[path] += (0.0, 1.5, 0.5, 0.2)[distance]
        return dict(scores), words, is_core

    def reached(self, source: Source, names: dict[str, float]) -> dict[str, dict[str, float]]:
        """Return the definitions that those of a file reach in it and in files that import them, by module.

        Methods are reached through their class. The search ends where the weight is small.
        """
        found = {source.module: names}
        queue = [source]
        for each in queue:
            methods = {definition.name for definition in each.definitions if definition.is_method}
            names = {
                name: STEP * weight
                for name, weight in found[each.module].items()
                if name not in methods and STEP * weight > MIN_WEIGHT
            }
            for module in sorted(self.tree.importers.get(each.module, ())) if names else ():
                importer = self.tree.by_module[module]
                if module in found or importer.path.startswith("tests/"):
                    continue
                mentioning = {
                    definition.name: max(names[word] for word in names.keys() & definition.words)
                    for definition in importer.definitions
                    if not names.keys().isdisjoint(definition.words)
                }
                if mentioning or not names.keys().isdisjoint(importer.words):
                    found[module] = reached_names(importer, mentioning)
                    queue.append(importer)
        return found

    def _by_words(self, words: dict[str, float]) -> dict[str, float]:
        """Score tests by the affected names that they contain, a rare name above a common one."""
        scores = {}
        for path, test in self.tree.tests.items():
            found = sorted(
                (words[word] * self._rarity[word] for word in words.keys() & test.words), reverse=True
            )
            named = max(
                (words[word] * self._path_rarity[word] for word in words.keys() & path_words(path)),
                default=0.0,
            )
            if found or named:
                scores[path] = sum(found[:1]) + 0.25 * sum(found[1:4]) + 0.8 * named
        return scores

    def _by_path(self, path: str) -> dict[str, float]:
        """Score tests by the words that their paths share with a path."""
        own = {word: self._path_rarity.get(word, 0.5) for word in path_words(path)}
        whole = sum(own.values()) or 1.0
        scores = {}
        for each in self.tree.tests:
            shared = sum(own[word] for word in own.keys() & path_words(each))
            if shared:
                scores[each] = 1.2 * shared / whole
        return scores


def path_words(path: str) -> set[str]:
    """Return the words of a path, without those that say nothing.

    Example:
        >>> sorted(path_words("tests/cpu_fallback/normalization/test_row_norm.py"))
        ['cpu', 'fallback', 'norm', 'normalization', 'row']
    """
    parts = path.removesuffix(".py").split("/")
    words = {word for part in parts for word in WORD.findall(part.replace("_", " "))}
    return words - {"tests", "test", "init", "triten", "dispatch", "structured"}


def reached_names(source: Source, changed: dict[str, float]) -> dict[str, float]:
    """Return definitions and those of the same file that mention them, with falling weights.

    Example:
        >>> text = "def a():\\n    return 1\\n\\n\\ndef b():\\n    return a()\\n"
        >>> reached_names(Source("x.py", "triten.x", False, text), {"a": 1.0})
        {'a': 1.0, 'b': 0.8}
    """
    found = dict(changed)
    level = changed
    while level:
        following: dict[str, float] = {}
        for definition in source.definitions:
            weight = max((level[word] for word in level.keys() & definition.words), default=0.0) * STEP
            if definition.name not in found and weight:
                following[definition.name] = max(weight, following.get(definition.name, 0.0))
        found |= following
        level = following
    return found


def changed_names(source: Source, lines: Sequence[int]) -> dict[str, float]:
    """Return the definitions at lines of a file, a method's class included, with weight 1."""
    return {
        definition.name: 1.0
        for definition in source.definitions
        if any(definition.first <= line <= definition.last for line in lines)
    }
