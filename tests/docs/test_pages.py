"""The pages of the documentation say what is true: their programs run, and print what stands below them.

A block of Python in a page is run, one after the other in one process. A block that begins with a comment of a file's
name is that file, which is imported by later blocks, or in the end. A block of text directly below is what the program
above it prints, with `...` for what differs from run to run. A page whose first lines have ``requires: triton`` is
skipped without Triton.
"""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import triten

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w/]+\.py)\n")
REQUIRES = re.compile(r"\A---\nrequires: (.*)\n---\n")
INSTALLED_BY_NAME = re.compile(r"pip install .*[ '\"]triten(\[[\w,]+\])?(['\"]| (?!@)|$)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# As launchers start the only process of a program.
LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
# Runs each block as a file of its own, since a Triton kernel's text is read from one.
RUN = """
import sys
from pathlib import Path

sys.path.insert(0, "")
known = {"__name__": "__main__"}
for name in sys.argv[1:]:
    print("\\x1e", end="")
    exec(compile(Path(name).read_text(), str(Path(name).resolve()), "exec"), known)
    sys.stdout.flush()
"""


def blocks_of(page: Path) -> list[tuple[str, str | None]]:
    """Return the programs of a page, each with its expected output."""
    found: list[tuple[str, str | None]] = []
    text = page.read_text()
    last: re.Match[str] | None = None
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            found.append((block[2], None))
            last = block
        elif block[1] == "text" and last is not None and not text[last.end() : block.start()].strip():
            found[-1] = (found[-1][0], block[2])
            last = None
        else:
            last = None
    return found


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_programs_of_a_page_run(page: Path, tmp_path: Path) -> None:
    required = REQUIRES.match(page.read_text())
    if required is not None and importlib.util.find_spec(required[1]) is None:
        pytest.skip(f"{required[1]} is not installed")
    programs: list[tuple[str, str | None]] = []
    imports = []
    for index, (text, expected) in enumerate(blocks_of(page)):
        named = FILE.match(text)
        path = tmp_path / (named[1] if named else f"block{index}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if named is None:
            programs.append((path.name, expected))
        else:
            imports.append(f"import {named[1].removesuffix('.py').replace('/', '.')}\n")
    if imports and importlib.util.find_spec("triton") is not None:
        (tmp_path / "imports.py").write_text("".join(imports))
        programs.append(("imports.py", None))
    package = str(Path(triten.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", RUN, *(name for name, _ in programs)],
        cwd=tmp_path,
        env={**os.environ, **LAUNCHED, "PYTHONPATH": package, "TRITEN_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("\x1e")[1:]
    checker = doctest.OutputChecker()
    for (name, expected), got in zip(programs, printed, strict=True):
        if expected is not None:
            assert checker.check_output(expected, got, FLAGS), f"{name} printed\n{got}\nexpected\n{expected}"


def test_commands_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text()
        code = "\n".join(block[2] for block in BLOCK.finditer(text)) + "\n".join(
            re.findall(r"`[^`\n]+`", text)
        )
        assert set(re.findall(r"(?<![-\w])make ([a-z][\w-]+)", code)) <= targets, page
        for module in re.findall(r"python -m (triten[\w.]*)", code):
            assert importlib.util.find_spec(module) is not None, (page, module)


def test_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_environment_variables_are_all_on_their_page() -> None:
    page = (ROOT / "docs" / "environment_variables.md").read_text()
    used = set()
    folders = [path for path in ROOT.iterdir() if (path / "__init__.py").exists() or path.name == "tests"]
    for path in [*ROOT.glob("*.py"), *(file for folder in folders for file in folder.rglob("*.py"))]:
        used.update(re.findall(r"[\"'](TRITEN_[A-Z][A-Z0-9_]*)[\"']", path.read_text()))
    described = set(re.findall(r"^\| `(TRITEN_\w+)", page, re.MULTILINE))
    assert used == described


def test_docstrings_become_text_without_markup() -> None:
    sys.path.insert(0, str(ROOT / "docs" / "extensions"))
    try:
        docstrings = importlib.import_module("docstrings")
    finally:
        sys.path.pop(0)
    assert doctest.testmod(docstrings).failed == 0
    assert docstrings.as_rst("Of `a` and |b_|.\n\nArgs:\n    *sizes: numbers.\n    x: a * b.") == [
        "Of ``a`` and \\|b\\_\\|.",
        "",
        "Args:",
        "    *sizes: numbers.",
        "    x: a \\* b.",
    ]
    assert docstrings.as_rst("Lacks:\n    cpu: float8,\n        bool.\n    cuda: none.") == [
        "Lacks:",
        "",
        "* cpu: float8,",
        "  bool.",
        "* cuda: none.",
    ]
    assert docstrings.as_rst("Exponentials.\n\n    exp(x_i) * 2\n\nNote:\n    One.\n\n    Two.") == [
        "Exponentials.",
        "",
        ".. math::",
        "",
        "    \\exp\\left(x_{i}\\right) \\cdot 2",
        "",
        "Note:",
        "    One.",
        "",
        "    Two.",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_install_triten_from_a_checkout_or_a_repository(page: Path) -> None:
    """PyPI has no triten yet, so that a name alone fails."""
    blocks = [block[2] for block in BLOCK.finditer(page.read_text()) if block[1] != "python"]
    by_name = [line for text in blocks for line in text.splitlines() if INSTALLED_BY_NAME.search(line)]
    assert by_name == []
