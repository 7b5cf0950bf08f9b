"""Inside the package every import is relative and runs downwards.

runtime < dispatch < cpu_fallback, triton_kernels < the root's modules and nn < perf
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = {"runtime": 0, "dispatch": 1, "cpu_fallback": 2, "triton_kernels": 2, "perf": 4}
ROOT_LAYER = 3
NOT_PACKAGES = {"tests", "examples", "build", "dist"}


def package_modules() -> list[str]:
    """The dotted names of all modules, from the files: `triten.runtime.device`."""
    folders = [
        child
        for child in ROOT.iterdir()
        if (child / "__init__.py").exists() and child.name not in NOT_PACKAGES
    ]
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    return sorted(".".join(("triten", *path.relative_to(ROOT).with_suffix("").parts)) for path in files)


def part_of(module: str) -> str:
    """The top folder of a module, or `root` for the root's modules and `nn`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "root"


def imported_modules(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of each import of `source`, in functions and under TYPE_CHECKING too.

    `module` is the dotted name, ending in `.__init__` for a package.
    """
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            if not base:
                yield node.lineno, "." * node.level
            elif node.module:
                yield node.lineno, ".".join((*base, node.module))
            else:
                yield from ((node.lineno, ".".join((*base, alias.name))) for alias in node.names)


def violations(source: str, module: str) -> list[str]:
    """What in `source`, the text of `module`, breaks the rules; empty if nothing does."""
    here = part_of(module)
    layer = LAYERS.get(here, ROOT_LAYER)
    absolute = {
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.level == 0)
    }
    found = []
    for line, target in imported_modules(source, module):
        if target.startswith("."):
            found.append(f"line {line}: a relative import out of the package")
        elif target.partition(".")[0] != "triten":
            continue
        elif line in absolute:
            found.append(f"line {line}: {target} is imported absolutely; write it relative")
        else:
            there = part_of(target)
            target_layer = LAYERS.get(there, ROOT_LAYER)
            if target_layer > layer or (target_layer == layer and there != here):
                found.append(f"line {line}: {here} imports {target}, which is not below it")
    return found


@pytest.mark.parametrize("module", package_modules())
def test_imports_are_relative_and_run_downwards(module: str) -> None:
    path = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
    assert violations(path.read_text(), module) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("triten.runtime.storage", "from ..dispatch.core import operator"),
        ("triten.runtime.storage", "from .. import func"),
        ("triten.runtime.storage", "def late():\n    from ..dispatch import core"),
        ("triten.runtime.__init__", "import triten.runtime.device"),
        ("triten.runtime.cuda.driver", "from ....other import name"),
        ("triten.dispatch.composite.nn", "from ... import nn"),
        ("triten.dispatch.composite.nn", "from ...cpu_fallback.sums import total"),
        ("triten.cpu_fallback.reduction.sums", "from ..triton_kernels import sums"),
        ("triten.triton_kernels.sums", "from ..cpu_fallback.sums import total"),
        ("triten.nn.functional", "from ..perf import overhead"),
        ("triten.func", "from triten.runtime.device import Device"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "triten.runtime.cuda.driver",
            "from ..device import Device\nimport numpy as np\nfrom triton import jit",
        ),
        ("triten.dispatch.composite.nn", "from ..generated import functions\nfrom ...runtime import device"),
        (
            "triten.cpu_fallback.reduction.sums",
            "from . import pointwise\nfrom ..dispatch.iterator import config",
        ),
        ("triten.__init__", "from . import nn\nfrom .dispatch.generated import functions"),
        ("triten.nn.functional", "from .. import func\nfrom ..runtime.device import Device"),
        ("triten.perf.overhead", "from ..nn import functional"),
    ],
)
def test_an_allowed_import_is_not_found(module: str, source: str) -> None:
    assert violations(source, module) == []
