"""Conversion of triten's docstrings to reStructuredText.

Docstrings are plain text. Names and code stand in single backticks, sections are Google's (``Args:``), and
examples are doctests. A paragraph that ends in two colons is followed by a literal block. Stars, bars and
underscores are literal, although reStructuredText would read them as markup.
"""

from __future__ import annotations

import re
from itertools import pairwise

from formulas import formula_as_latex

_CODE = re.compile(r"``.+?``|`[^`]+`(?!_)|:[a-z:]+:`[^`]+`", re.DOTALL)
_SCHEMA = re.compile(r"[\w.]+(::[\w.]+)?\(.*\) -> .+")
_MARKUP = re.compile(r"[*|\\]|(?<=\w)_(?!\w)")
_ITEM = re.compile(r"(\s*)([*-] |\*{1,2}(?=\w[\w, *]*( \([^)]*\))?:))?(.*)")

# The titles that napoleon knows (Google's sections).
_SECTIONS = re.compile(
    "(args|arguments|attention|attributes|caution|danger|error|examples?|hint|important|keyword arg(ument)?s|methods|"
    "notes?|other parameters|parameters|returns?|raises?|receives?|references|see also|tip|todo|warnings?|warns?|"
    "yields?):",
    re.IGNORECASE,
)


def as_rst(text: str) -> list[str]:
    """Convert a docstring to reStructuredText lines, escaping unintended markup.

    Example:
        >>> as_rst("Is a*b of `x`.")
        ['Is a\\\\*b of ``x``.']
    """
    lines = text.splitlines()
    found: list[str] = []
    paragraph: list[str] = []
    literal: int | None = None  # the indentation of the paragraph that announced a literal block
    in_section = False

    def close() -> None:
        nonlocal in_section
        if paragraph and not _depth(paragraph[0]):
            in_section = paragraph[0].rstrip().endswith(":")
        # An indented paragraph below plain text is a formula.
        is_formula = paragraph and _depth(paragraph[0]) and not in_section and found and not found[-1].strip()
        found.extend(_formula(paragraph) if is_formula else _paragraph(paragraph))
        paragraph.clear()

    index = 0
    while index < len(lines):
        line = lines[index]
        depth = _depth(line)
        if literal is not None and (not line.strip() or depth > literal):
            found.append(line)
        elif line.lstrip().startswith(">>> "):
            close()
            if found and found[-1].strip() and not found[-1].rstrip().endswith(":"):
                found.append("")
            while index < len(lines) and lines[index].strip():
                found.append(lines[index])
                index += 1
            literal = None
            continue
        elif not line.strip():
            announces = bool(paragraph) and paragraph[-1].rstrip().endswith("::")
            depth = _depth(paragraph[0]) if paragraph else 0
            close()
            found.append("")
            literal = depth if announces else None
        else:
            literal = None
            paragraph.append(line)
        index += 1
    close()
    return found


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _formula(lines: list[str]) -> list[str]:
    """Return a formula as mathematics, or as text where it is not one that `formulas` covers."""
    latex = formula_as_latex("\n".join(lines))
    return [".. code-block:: text", "", *lines] if latex is None else [".. math::", "", f"    {latex}"]


def _paragraph(lines: list[str]) -> list[str]:
    """Convert a paragraph. A section whose title napoleon does not know becomes a list of its items."""
    title = lines[0].strip() if lines else ""
    others = lines[1:]
    is_section = title.endswith(":") and others and all(_depth(line) > _depth(lines[0]) for line in others)
    if not is_section or _SECTIONS.fullmatch(title):
        return _escaped_paragraph(lines)
    margin = " " * _depth(lines[0])
    found = [*_escaped_paragraph(lines[:1]), ""]
    least = min(map(_depth, others))
    starts = [index for index, line in enumerate(others) if _depth(line) == least] + [len(others)]
    for start, end in pairwise([0, *starts[1:]] if starts[0] else starts):
        first, *more = _escaped_paragraph([line.strip() for line in others[start:end]])
        found += [f"{margin}* {first}", *(f"{margin}  {line}" for line in more)]
    return found


def _escaped_paragraph(lines: list[str]) -> list[str]:
    """Escape a paragraph's lines; code may span several lines."""
    if all(_SCHEMA.fullmatch(line.strip()) for line in lines):
        # The schemas of an operator, one a line.
        return [f"``{line.strip()}``" for line in lines]
    heads, bodies = [], []
    for line in lines:
        match = _ITEM.fullmatch(line)
        assert match is not None
        head, body = match[1] + (match[2] or ""), match[4]
        heads.append(head)
        bodies.append(body)
    text = "\n".join(bodies)
    pieces, end = [], 0
    for code in _CODE.finditer(text):
        pieces += [_MARKUP.sub(r"\\\g<0>", text[end : code.start()]), _literal(code[0])]
        end = code.end()
    pieces.append(_MARKUP.sub(r"\\\g<0>", text[end:]))
    return [head + body for head, body in zip(heads, "".join(pieces).split("\n"), strict=True)]


def _literal(code: str) -> str:
    return code if code.startswith(("``", ":")) else f"``{code[1:-1].strip()}``"
