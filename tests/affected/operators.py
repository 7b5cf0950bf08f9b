"""The operators that a changed definition serves, from the tables that the dispatcher is made of.

| Changed | Table |
|---|---|
| a kernel's module | `dispatch/generated/kernel_index.py`, and the rows that mention the definition |
| a meta function, a stub, a planner | fields of `dispatch/native_functions/*.yaml` |
| a composite function | the field `dispatch` there |
| a function of a formula | the formulas of `dispatch/derivatives.yaml` that call it |
| an entry of a YAML file | the entry's operator |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from triten.dispatch.codegen.load import load_functions, read_entries
from triten.dispatch.generated.kernel_index import KERNELS

from .tree import PACKAGE, WORD, Source, Tree

KERNEL_PACKAGES = (f"{PACKAGE}.cpu_fallback.", f"{PACKAGE}.triton_kernels.")
"""The prefixes of the modules in each column of the index."""
PUBLIC_MENTIONS = 40
"""A name that more definitions than this mention, such as `add`, does not lead from an operator to its callers."""
CALLER_WEIGHT = 0.5
NOT_CALLERS = frozenset(
    {"runtime", "cpu_fallback", "triton_kernels", "compiler", "tests", "perf", "examples", "docs"}
)
"""Folders without public functions."""
NO_CALLERS = frozenset({"core", "plans", "iterator", "codegen", "structured", "schema", "layers", "autograd"})
"""Folders of `dispatch` without compositions of operators."""


class OperatorTables:
    """Operators by kernel, meta function, composite function, formula and caller."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        dispatch = tree.root / "dispatch"
        self.functions = load_functions(dispatch / "native_functions").functions
        self.formulas = read_entries(dispatch / "derivatives.yaml")
        self.names = frozenset(function.base for function in self.functions)

    @cached_property
    def by_function(self) -> dict[str, set[str]]:
        """Operators by the meta, stub, planner and composite functions that entries name."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for function in self.functions:
            kernels = (kernel for _, kernel in function.dispatch)
            for name in (function.meta, function.stub, function.planner, *kernels):
                if name is not None:
                    found[name].add(function.base)
        return dict(found)

    @cached_property
    def by_formula(self) -> dict[str, set[str]]:
        """Operators by the words of their formulas."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for entry, location in self.formulas:
            base = location.operator.partition(".")[0]
            for key, formula in entry.items():
                if key != "name":
                    for word in WORD.findall(str(formula)):
                        found[word].add(base)
        return dict(found)

    @cached_property
    def by_module(self) -> dict[str, set[str]]:
        """Operators by the modules of their kernels."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for stub, modules in KERNELS.items():
            for prefix, module in zip(KERNEL_PACKAGES, modules, strict=True):
                if module is not None:
                    found[prefix + module] |= self.by_function.get(stub, {stub.removesuffix("_stub")})
        return dict(found)

    def served(self, reached: dict[str, dict[str, float]]) -> dict[str, float]:
        """Return the operators that definitions serve, each with a weight of at most 1.

        Args:
            reached: The weights of the definitions that a change reaches, by module; the changed module is first.
        """
        found: defaultdict[str, float] = defaultdict(float)

        def add(operators: set[str], weight: float) -> None:
            for operator in operators:
                found[operator] = max(found[operator], weight)

        for module, names in reached.items():
            if module.startswith(KERNEL_PACKAGES):
                rows = list(self._rows(self.tree.by_module[module], names))
                for operator, weight in rows:
                    add({operator}, weight)
                # A loop over a table registers operators without a row that names both.
                share = 0.4 if rows else 0.8
                add(self.by_module.get(module, set()), share * max(names.values(), default=1.0))
            for name, weight in names.items():
                if ".structured.meta" in module or ".composite" in module:
                    add(self.by_function.get(name, set()), weight)
                if ".autograd.formulas" in module:
                    add(self.by_formula.get(name, set()), weight)
        return dict(found)

    def _rows(self, source: Source, names: dict[str, float]) -> Iterator[tuple[str, float]]:
        """Yield operators that stand in one line of the file with a definition that the change reaches."""
        for line in source.text.splitlines():
            words = WORD.findall(line)
            reached = max((names.get(word, 0.0) for word in words), default=0.0)
            if reached:
                for word in words:
                    for operator in (word, word.removesuffix("_stub")):
                        if operator in self.names:
                            yield operator, reached

    def entries(self, path: str, lines: Sequence[int]) -> set[str]:
        """Return the operators of the entries of a YAML file that lines are in."""
        starts = [
            (location.line, location.operator.partition(".")[0])
            for _, location in read_entries(self.tree.root / path)
            if location.operator
        ]
        found = set()
        for line in lines:
            before = [operator for start, operator in starts if start <= line]
            found.update(before[-1:])
        return found

    @cached_property
    def mentions(self) -> dict[str, set[str]]:
        """Names of composite and public functions by the words of their definitions."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for source in self.tree.sources.values():
            parts = source.module.split(".")[1:]
            if not parts or parts[0] in NOT_CALLERS:
                continue
            if parts[0] == "dispatch" and len(parts) > 1 and parts[1] in NO_CALLERS:
                continue
            for definition in source.definitions:
                for word in definition.words:
                    if word != definition.name:
                        found[word].add(definition.name)
        return dict(found)

    def with_callers(self, operators: dict[str, float], levels: int = 2) -> dict[str, float]:
        """Return operators and the composite and public functions that call them, with smaller weights."""
        found = dict(operators)
        level = operators
        for _ in range(levels):
            callers: dict[str, float] = {}
            for operator, weight in level.items():
                names = self.mentions.get(operator, set())
                if len(names) <= PUBLIC_MENTIONS:
                    for name in names:
                        if name not in found:
                            callers[name] = max(callers.get(name, 0.0), weight * CALLER_WEIGHT)
            found |= callers
            level = callers
        return found
