"""The parts of the package that mutants are drawn from, by module names."""

from __future__ import annotations

import ast
import random

from triten.tests.affected.tree import PACKAGE, Tree

from .mutants import Mutant, formula_mutants, mutants_of

FORMULAS = "dispatch/derivatives.yaml"
AREAS = {
    "CPU kernels": ("cpu_fallback.",),
    "Triton kernels": ("triton_kernels.",),
    "derivatives": ("dispatch.autograd.formulas.", FORMULAS),
    "meta functions": ("dispatch.structured.meta.",),
    "compiler passes": ("compiler.passes.",),
    "allocator": ("runtime.cuda.memory.",),
    "distributed": ("distributed.",),
}


def files_of(tree: Tree, area: str) -> list[str]:
    """Return the paths of an area's files."""
    starts = tuple(f"{PACKAGE}.{each}" for each in AREAS[area] if each != FORMULAS)
    found = [source.path for source in tree.sources.values() if source.module.startswith(starts)]
    return sorted([*found, *(each for each in AREAS[area] if each == FORMULAS)])


def draw(tree: Tree, count: int, seed: int, areas: tuple[str, ...] = tuple(AREAS)) -> list[Mutant]:
    """Return `count` different mutants, the areas in turn, each file as likely as it is long."""
    generator = random.Random(seed)
    drawn: list[Mutant] = []
    while len(drawn) < count:
        files = files_of(tree, areas[len(drawn) % len(areas)])
        texts = [(tree.root / path).read_text(encoding="utf-8") for path in files]
        (number,) = generator.choices(range(len(files)), [len(text) for text in texts])
        found = mutants_in(files[number], texts[number])
        mutant = generator.choice(found) if found else None
        if mutant is not None and mutant not in drawn and is_valid(mutant, texts[number]):
            drawn.append(mutant)
    return drawn


def mutants_in(path: str, text: str) -> list[Mutant]:
    """Return the mutants of a Python file, or of the formulas of a YAML file."""
    return formula_mutants(path, text) if path.endswith(".yaml") else mutants_of(path, text)


def is_valid(mutant: Mutant, text: str) -> bool:
    """Return True if a Python file with the mutant can be parsed; formulas are checked when code is generated."""
    try:
        ast.parse("" if mutant.path.endswith(".yaml") else mutant.apply(text))
    except SyntaxError:
        return False
    return True
