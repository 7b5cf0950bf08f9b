"""Small faults of a Python file: operators, comparisons, constants off by one, branches, deleted statements."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
DESCRIPTIONS = frozenset({"chosen", "warn", "declare"})
"""Calls that describe a kernel or explain a choice; deleting them changes no result."""


@dataclass(frozen=True)
class Mutant:
    """A fault: in the file at `path`, the bytes from `start` to `end` become `after`. `source` is the whole line."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    source: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the fault."""
        data = text.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()

    def __str__(self) -> str:
        short = (" ".join(part.split())[:60] for part in (self.before, self.after))
        return f"{self.path}:{self.line}: {' -> '.join(short)}   in: {self.source.strip()[:90]}"


class _Finder(ast.NodeVisitor):
    """Collects the faults of one file. Annotations, docstrings, assertions and messages of errors get none."""

    def __init__(self, path: str, text: str, offset: int = 0, line: int = 0) -> None:
        self.path, self.data = path, text.encode()
        self.offset, self.line = offset, line
        self.starts = [0]
        for each in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(each))
        self.found: list[Mutant] = []

    def place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def replace(self, start: int, end: int, after: str) -> None:
        line = self.line + self.data.count(b"\n", 0, start) + 1
        before = self.data[start:end].decode()
        source = self.data[self.data.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0].decode()
        self.found.append(
            Mutant(self.path, line, self.offset + start, self.offset + end, before, after, source)
        )

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Replace the operator between two operands."""
        start, end = self.place(left)[0], self.place(right)[1]
        first, last = self.place(left)[1], self.place(right)[0]
        pattern = re.escape(old).replace(r"\ ", r"\s+")
        operator = re.compile((rf"\b{pattern}\b" if old[0].isalpha() else pattern).encode())
        if match := operator.search(self.data, first, last):
            after = self.data[start : match.start()] + new.encode() + self.data[match.end() : end]
            self.replace(start, end, after.decode())

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for i, op in enumerate(node.ops):
            old, new = COMPARISONS[type(op)]
            self.between(operands[i], operands[i + 1], old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(isinstance(each, ast.JoinedStr) or _is_text(each) for each in (node.left, node.right))
        if type(node.op) in ARITHMETIC and not is_text:
            self.between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self.replace(self.place(node)[0], self.place(node.operand)[0], "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self.replace(*self.place(node), str(node.value + 1))
        elif type(node.value) is bool:
            self.replace(*self.place(node), str(not node.value))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self._negate(node.test)
            self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            start, end = self.place(test)
            self.replace(start, end, f"not ({self.data[start:end].decode()})")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            if _called(node.value) in DESCRIPTIONS:
                return
            self.replace(*self.place(node), "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self.between(node.target, node.value, f"{old}=", f"{new}=")
        self.replace(*self.place(node), "pass")
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self.replace(*self.place(node), "pass")
        if not (isinstance(node.targets[0], ast.Name) and node.targets[0].id.startswith("__")):
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(each)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(*self.place(node), "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone: they state what holds anyway."""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes | type(None))


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def mutants_of(path: str, text: str) -> list[Mutant]:
    """Return the faults that a Python file can get."""
    finder = _Finder(path, text)
    finder.visit(ast.parse(text))
    return finder.found


def formula_mutants(path: str, text: str) -> list[Mutant]:
    """Return the faults of the formulas of a YAML file, those of one line."""
    found: list[Mutant] = []
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        if (match := re.match(r"  ([\w, ]+): (?![\"'|>\[])(.+)", line)) and not match[2].startswith("auto_"):
            formula = match[2].rstrip()
            place = offset + len(line[: match.start(2)].encode())
            try:
                tree = ast.parse(formula, mode="eval")
            except SyntaxError:
                continue
            finally:
                offset += len(line.encode())
            finder = _Finder(path, formula, place, number)
            finder.visit(tree.body)
            found += finder.found
        else:
            offset += len(line.encode())
    return found
