"""Examples of documentation: under an alias's name, and in the in-place form."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Sequence

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
IMPORT = ">>> import triten as tt"


def renamed(example: str, public: str, alias: str, alias_public: str) -> str:
    """Rewrite an example of `public` to call an alias instead."""
    short = public.rpartition(".")[2]

    def call(match: re.Match[str]) -> str:
        return f"{alias_public if match[1] else '.' + alias}("

    return re.sub(rf"(\btt(?:\.\w+)*)?\.{short}\(", call, example)


def in_place_example(example: str, name: str, public: str, method: bool) -> str | None:
    """Rewrite an example of the function `name` for its in-place form; return None if that is not possible.

    The last statement has to be a call of the function or of the method, which prints its result. The first argument
    becomes a variable, on which the method is called, or which the function is given if there is no `method`.
    """
    statements = doctest.DocTestParser().get_examples(example)
    if not statements:
        return None
    *before, last = statements
    call = _call(last.source)
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    short = public.rpartition(".")[2]
    arguments = [ast.unparse(a) for a in call.args]
    if call.func.attr == short and re.fullmatch(r"tt(\.\w+)+", ast.unparse(call.func)):
        if not arguments:
            return None
        changed, *arguments = arguments
    elif call.func.attr == name:
        changed = ast.unparse(call.func.value)
    else:
        return None
    arguments += [f"{'**' if k.arg is None else k.arg + '='}{ast.unparse(k.value)}" for k in call.keywords]
    lines = _lines(before)
    variable = changed if changed.isidentifier() else "x"
    if variable != changed:
        lines.append(f">>> x = {changed}")
    if method:
        lines.append(f">>> {variable}.{name}_({', '.join(arguments)})")
    else:
        lines.append(f">>> {public}_({', '.join([variable, *arguments])})")
    return "\n".join([*lines, *_wanted(last)])


def _call(source: str) -> ast.Call | None:
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return None
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        return None
    value = statements[0].value
    return value if isinstance(value, ast.Call) else None


def _lines(statements: Sequence[doctest.Example]) -> list[str]:
    lines = []
    for each in statements:
        first, *rest = each.source.rstrip().split("\n")
        lines += [f">>> {first}", *(f"... {line}" for line in rest), *_wanted(each)]
    return lines


def _wanted(statement: doctest.Example) -> list[str]:
    return statement.want.rstrip().split("\n") if statement.want else []


def with_import(example: str) -> str:
    """Return an example with its import, so that it runs by itself."""
    return example if "import triten" in example else f"{IMPORT}\n{example}"


def failures_of(example: str, name: str) -> str:
    """Run an example, and return doctest's report if the output differs, else an empty text."""
    test = doctest.DocTestParser().get_doctest(example, {}, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    reported: list[str] = []
    runner.run(test, out=reported.append)
    return "".join(reported)


__all__ = ["FLAGS", "IMPORT", "failures_of", "in_place_example", "renamed", "with_import"]
