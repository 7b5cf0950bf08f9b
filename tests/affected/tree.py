"""Modules of the checkout: names, definitions and imports, read from syntax trees without importing a module."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

PACKAGE = "triten"
ROOT = Path(__file__).resolve().parents[2]
SKIPPED = frozenset({"build", "dist", "_build", "__pycache__", "generated"})
"""Folders without sources of their own; generated code follows from the files that it is made of."""
WORD = re.compile(r"[A-Za-z_]\w*")
# Parsing all of the tests takes 20 seconds; these expressions read the imports in one.
IMPORT = re.compile(
    r"^[ \t]*(?:import[ \t]+([^\n#;]+)|from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+))",
    re.MULTILINE,
)
IMPORTED = re.compile(r"(?:^|[(,])\s*(?:#[^\n]*\n\s*)*(\w+)")
TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Definition:
    """A function, method or assignment: its lines, and the words in its text."""

    name: str
    is_method: bool
    first: int
    last: int
    words: frozenset[str]


@dataclass(frozen=True)
class Source:
    """A Python file of the checkout."""

    path: str
    module: str
    is_package: bool
    text: str = field(repr=False)

    @cached_property
    def words(self) -> frozenset[str]:
        """Identifiers of the text, those in strings and comments included."""
        return frozenset(WORD.findall(self.text))

    @cached_property
    def _body(self) -> list[ast.stmt]:
        return ast.parse(self.text).body

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """Functions, methods and top-level assignments, in the order of the file."""
        lines = self.text.splitlines()
        found = []
        for name, node, is_method in _named(self._body):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            last = node.end_lineno or first
            words = frozenset(WORD.findall("\n".join(lines[first - 1 : last])))
            found.append(Definition(name, is_method, first, last, words))
        return tuple(found)

    @cached_property
    def raw_imports(self) -> frozenset[str]:
        """Absolute names of imported modules and of names imported from them, those inside functions included."""
        found: set[str] = set()
        parts = self.module.split(".")
        for match in IMPORT.finditer(TYPES_ONLY.sub("", self.text)):
            plain, dots, base, names = match.groups()
            if plain is not None:
                found.update(each.split()[0] for each in plain.split(",") if each.split())
                continue
            if dots:
                start = len(parts) - len(dots) + self.is_package
                base = ".".join([*parts[:start], *filter(None, [base])])
            found.add(base)
            found.update(f"{base}.{name}" for name in IMPORTED.findall(names))
        return frozenset(found)


def _named(body: list[ast.stmt], is_method: bool = False) -> Iterator[tuple[str, ast.stmt, bool]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node, is_method
            case ast.ClassDef():
                yield node.name, node, False
                yield from _named([each for each in node.body if isinstance(each, ast.FunctionDef)], True)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node, False


def module_name(path: str) -> str:
    """Return the dotted name of a file by its path from the root.

    The root is the package itself, or holds its public part in a folder with the package's name.

    Example:
        >>> module_name("runtime/device.py"), module_name("triten/nn/__init__.py")
        ('triten.runtime.device', 'triten.nn')
    """
    parts = path.removesuffix(".py").split("/")
    if parts[0] == PACKAGE:
        del parts[0]
    if parts and parts[-1] == "__init__":
        del parts[-1]
    return ".".join([PACKAGE, *parts])


class Tree:
    """All Python files under `root`, generated code and links to folders excluded."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.sources: dict[str, Source] = {}
        for path in sorted(_files(root)):
            name = path.relative_to(root).as_posix()
            self.sources[name] = Source(
                name, module_name(name), path.name == "__init__.py", path.read_text(encoding="utf-8")
            )
        self.by_module = {source.module: source for source in self.sources.values()}

    def imports_of(self, source: Source) -> frozenset[str]:
        """Return the modules of the checkout that a file imports."""
        found = {self._module_of(name) for name in source.raw_imports}
        return frozenset(name for name in found if name is not None and name != source.module)

    def _module_of(self, name: str) -> str | None:
        while name and name not in self.by_module:
            name = name.rpartition(".")[0]
        return None if name == PACKAGE else name or None

    @cached_property
    def importers(self) -> dict[str, frozenset[str]]:
        """Modules that import each module."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for source in self.sources.values():
            for name in self.imports_of(source):
                found[name].add(source.module)
        return {name: frozenset(modules) for name, modules in found.items()}

    def dependents(self, module: str) -> dict[str, int]:
        """Return the modules whose imports lead to `module`, each with the number of imports between."""
        distance = {module: 0}
        queue = [module]
        for name in queue:
            for each in sorted(self.importers.get(name, ())):
                if each not in distance:
                    distance[each] = distance[name] + 1
                    queue.append(each)
        return distance

    @cached_property
    def tests(self) -> dict[str, Source]:
        """Test files, by path."""
        return {
            path: source
            for path, source in self.sources.items()
            if path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")
        }


def _files(folder: Path) -> Iterator[Path]:
    for child in folder.iterdir():
        if child.name.startswith(".") or child.name in SKIPPED or child.name.endswith(".egg-info"):
            continue
        if child.is_dir():
            if not child.is_symlink():
                yield from _files(child)
        elif child.suffix == ".py":
            yield child
