"""Findings in prose: house terms, sentences without a subject, docstrings that do not open with a verb, empty links.

`python -m triten.tests.docs.language` counts them by folder and writes `language_counts.json`. The test keeps the
counts from growing. With paths the module prints each finding. `house_terms.tsv` has a regular expression and the
field's term in each row.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_name("language_counts.json")
ROWS = [
    row.partition("\t") for row in Path(__file__).with_name("house_terms.tsv").read_text().splitlines() if row
]
TERMS = [(re.compile(pattern, re.IGNORECASE), term) for pattern, _, term in ROWS]
ANY_TERM = re.compile(
    rf"(?<![\w.`/-])(?:{'|'.join(pattern for pattern, _, _ in ROWS)})(?![\w`(-])", re.IGNORECASE
)
WITHOUT_SUBJECT = re.compile(
    r"(?:What|Of|Besides?|Where|Whether|So (?:are|is|do|does)|Such|Nobody|Whoever|Somebody)\b[^?]*$"
)
NOUN_FIRST = re.compile(r"(?:The|An?|What|Whether|How|Which|Where|As|Of|One|Those|All|No|Each|Every)\b")
SECTIONS = re.compile(r"\n\s*(?:Args|Attributes|Examples?|Returns|Raises|Shape|Source):|>>>")
GENERATED = ("dispatch/generated/", "tests/docs/language")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; a list's items are sentences of their own."""
    text = re.sub(r"`[^`]*`", "`x`", text)
    text = re.sub(r"\n\s*(?:[-*]|\d+\.)\s+", ". ", text)
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`\[*])", " ".join(text.split()))


def findings(text: str) -> Iterator[tuple[str, str]]:
    """Yield each finding in a passage: the rule and the words."""
    for sentence in sentences(text):
        if WITHOUT_SUBJECT.match(sentence):
            yield "sentence without a subject", sentence[:100]
    for found in ANY_TERM.finditer(re.sub(r"`[^`]*`", "`x`", text)):
        yield (
            "house term",
            f"{found[0]!r}, better {next(term for pattern, term in TERMS if pattern.fullmatch(found[0]))}",
        )


def in_markdown(text: str) -> Iterator[tuple[str, str]]:
    """Yield the findings in a page, without its code and tables."""
    if "[](" in text:
        yield "link without text", text[text.index("[](") :][:60]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^(?:\||#| {4}).*$", "", prose, flags=re.MULTILINE)
    for paragraph in prose.split("\n\n"):
        yield from findings(paragraph)


def documented(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the statements within it: expressions hold no docstrings."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers"):
        for child in getattr(node, field, ()) if not isinstance(node, ast.expr) else ():
            yield from documented(child)


def in_python(text: str) -> Iterator[tuple[str, str]]:
    """Yield the findings in a module's docstrings."""
    for node in documented(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            prose = SECTIONS.split(ast.get_docstring(node) or "")[0]
            if isinstance(node, ast.FunctionDef) and NOUN_FIRST.match(prose) and not is_property(node):
                yield "docstring without a verb", prose.split("\n")[0][:100]
            yield from findings(prose)


def is_property(node: ast.FunctionDef) -> bool:
    """Return whether a method is read as an attribute, so that a noun describes it."""
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def findings_of(path: Path) -> list[tuple[str, str]]:
    """Return the findings in a file."""
    text = path.read_text(encoding="utf-8")
    return list(in_markdown(text) if path.suffix == ".md" else in_python(text))


def source_files() -> list[str]:
    """Return the hand-written pages and modules."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [
        each
        for each in listed.stdout.splitlines()
        if not each.startswith(GENERATED) and each != "CHANGELOG.md"
    ]


def counts() -> dict[str, dict[str, int]]:
    """Return how many findings each folder of the root has, by rule."""
    found: dict[str, Counter[str]] = {}
    for file in source_files():
        folder = file.partition("/")[0] if "/" in file else "."
        found.setdefault(folder, Counter()).update(rule for rule, _ in findings_of(ROOT / file))
    return {folder: dict(sorted(rules.items())) for folder, rules in sorted(found.items()) if rules}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for rule, words in findings_of(Path(argument)):
            print(f"{argument}: {rule}: {words}")
    if len(sys.argv) == 1:
        COUNTS.write_text(json.dumps(counts(), indent=1) + "\n")
