"""Conversion of the formulas in docstrings to LaTeX.

A docstring has its formula in plain text, such as ``exp(x_i) / sum_j exp(x_j)``, which a terminal can show. The
pages of the reference show it as mathematics. A formula that the grammar below does not cover stays text.

The grammar, from the weakest operator to the strongest::

    formula:    part {(";" | ",") part}
    part:       [word] expression [("if" | "where") comparison] ["otherwise"] | prose
    comparison: sum {("=" | "<" | "<=" | ...) sum}
    sum:        product {("+" | "-") product}
    product:    unary {("*" | "/" | "//" | "@") unary}
    unary:      ["-"] power {power}
    power:      atom ["**" unary]
    atom:       number | name | call | "(" ... ")" | "|" ... "|" | sum_i product | integral
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<derivative>d/dx\b)|(?P<quoted>`[^`]+`)|(?P<number>\d+\.\d+|\d+)"
    r"|(?P<name>[A-Za-z]\w*?(?:_(?=\()|(?!\w))'?)|(?P<xor>(?<= )\^(?= ))"
    r"|(?P<operator>\.\.\.|\.\.|\.T\b|\*\*|//|<<|>>|<=|>=|==|!=|\+=|[-+*/@^=<>|!()\[\],:&~])|(?P<other>\S))"
)
_GREEK = {"alpha", "beta", "gamma", "delta", "theta", "lambda", "mu", "pi", "sigma", "tau", "zeta"}
_SYMBOLS = {"inf": r"\infty", "infinity": r"\infty", "lambd": r"\lambda", "eps": r"\epsilon"}
_FUNCTIONS = {
    "log",
    "ln",
    "exp",
    "sin",
    "cos",
    "tan",
    "tanh",
    "cosh",
    "sinh",
    "arcsin",
    "arccos",
    "arctan",
    "max",
    "min",
    "det",
    "gcd",
}
_COMPARISONS = {
    "=": "=", "==": "=", "!=": r"\ne", "<": "<", "<=": r"\le", ">": ">", ">=": r"\ge", "+=": "+="
}  # fmt: skip
_BITWISE = {"&": r"\&", "|": r"\mid", "<<": r"\ll", ">>": r"\gg"}
_WORDS = {"and": r"\text{ and }", "or": r"\text{ or }", "xor": r"\oplus"}
_OPENERS = ("with", "where", "for", "and", "or", "else", "in")


class _NotCovered(Exception):
    """Signal that a text is no formula of this grammar."""


@dataclass(frozen=True)
class _Term:
    """LaTeX of a subexpression, and the inner LaTeX of one in parentheses, which a fraction or exponent drops."""

    latex: str
    inside: str | None = None

    @property
    def bare(self) -> str:
        return self.latex if self.inside is None else self.inside

    @property
    def is_word(self) -> bool:
        return self.latex.startswith(r"\text{")


def formula_as_latex(text: str) -> str | None:
    r"""Return LaTeX for a formula in plain text; None for one that the grammar does not cover.

    Example:
        >>> formula_as_latex("exp(x_i) / sum_j exp(x_j)")
        '\\frac{\\exp\\left(x_{i}\\right)}{\\sum_{j} \\exp\\left(x_{j}\\right)}'
        >>> formula_as_latex("window i starts at floor(i)") is None
        True
    """
    lines = [_line(part.strip()) for part in " ".join(text.split()).split(";")]
    if any(line is None for line in lines):
        return None
    found = [line for line in lines if line is not None]
    return found[0] if len(found) == 1 else r"\begin{aligned}" + r" \\ ".join(found) + r"\end{aligned}"


def _line(text: str) -> str | None:
    text = re.sub(r"^density (?!proportional)", "f(x) = ", text)
    cases: list[tuple[str, str]] = []
    parts: list[str] = []
    for index, piece in enumerate(_pieces(text)):
        word, _, rest = piece.partition(" ")
        is_introduced = word in _OPENERS and index > 0
        try:
            value, condition, is_exact = _Parser(rest if is_introduced else piece).part()
        except _NotCovered:
            if not index:
                return None
            parts.append(rf"\text{{{_escaped(piece)}}}")
            continue
        if is_introduced and word == "else" and cases:
            cases.append((value, r"\text{otherwise}"))
        elif is_introduced:
            parts.append(rf"\text{{{word} }}{value}" + (rf"\ {condition}" if condition else ""))
        elif condition is not None and is_exact:
            cases.append((value, condition))
        else:
            parts.append(value + (rf"\quad {condition}" if condition else ""))
    if len(cases) == 1:
        parts.insert(0, r"\quad ".join(cases[0]))
    elif cases:
        rows = r" \\ ".join(rf"{value} & {condition}" for value, condition in cases)
        parts.insert(0, rf"\begin{{cases}}{rows}\end{{cases}}")
    return r",\quad ".join(parts)


def _pieces(text: str) -> list[str]:
    """Split a text at the commas outside of parentheses."""
    found, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            found.append(text[start:index].strip())
            start = index + 1
    return [*found, text[start:].strip()]


def _escaped(text: str) -> str:
    return re.sub(r"[_&%#$]", r"\\\g<0>", text.replace("`", ""))


def _named(name: str) -> str:
    r"""Return the LaTeX of a name: ``x_i`` has a subscript, ``negative_slope`` is a word."""
    prime = "'" if name.endswith("'") else ""
    base, _, index = name.rstrip("'").partition("_")
    if index and (len(base) == 1 or base in _GREEK or len(index) <= 2):
        inner = index if len(index) <= 2 else rf"\text{{{_escaped(index)}}}"
        return f"{_named(base)}_{{{inner}}}{prime}"
    whole = name.rstrip("'")
    if whole in _GREEK:
        return rf"\{whole}{prime}"
    if whole in _SYMBOLS:
        return _SYMBOLS[whole] + prime
    numbered = re.fullmatch(r"([A-Za-z]+)(\d+)", whole)
    if numbered and (len(numbered[1]) == 1 or numbered[1] in _GREEK):
        return f"{_named(numbered[1])}_{{{numbered[2]}}}{prime}"
    is_symbol = len(whole) == 1 or whole in ("dt", "dx")
    return (whole if is_symbol else rf"\text{{{_escaped(whole)}}}") + prime


class _Parser:
    """Recursive descent over the tokens of a piece between commas."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._tokens: list[tuple[str, str, bool]] = []
        self._starts: list[int] = []
        end = 0
        for match in _TOKEN.finditer(self._text):
            kind = str(match.lastgroup)
            if kind == "other":
                raise _NotCovered
            self._tokens.append((kind, match[kind], match.start(kind) > end))
            self._starts.append(match.start(kind))
            end = match.end()
        self._at = 0
        self._bars = 0

    def part(self) -> tuple[str, str | None, bool]:
        """Return an expression, its condition if there is one, and whether the condition makes it a case."""
        value = self._logic()
        word = self._next()
        if not word:
            return value, None, True
        start = self._starts[self._at]
        self._take()
        if word == "otherwise" and not self._next():
            return value, rf"\text{{{word}}}", True
        if word not in ("if", "where", "for"):
            raise _NotCovered
        try:
            condition = rf"\text{{{'if' if word == 'where' else word} }}{self._logic()}"
            if self._next() == "else":
                self._take()
                other = self._logic()
                value = rf"\begin{{cases}}{value} & {condition} \\ {other} & \text{{otherwise}}\end{{cases}}"
                if not self._next():
                    return value, None, True
            if not self._next():
                return value, condition, word != "for"
        except _NotCovered:
            pass
        return value, rf"\text{{{_escaped(self._text[start:])}}}", False

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _touches(self) -> bool:
        """Return whether the next token follows without a space."""
        return self._at < len(self._tokens) and not self._tokens[self._at][2]

    def _take(self, expected: str | None = None) -> str:
        value = self._next()
        if not value or (expected is not None and value != expected):
            raise _NotCovered
        self._at += 1
        return value

    def _logic(self) -> str:
        latex = self._comparison()
        while self._next() in _WORDS:
            latex += f" {_WORDS[self._take()]} {self._comparison()}"
        return latex

    def _comparison(self) -> str:
        latex = self._bits()
        while self._next() in _COMPARISONS:
            latex += f" {_COMPARISONS[self._take()]} {self._bits()}"
        return latex

    def _bits(self) -> str:
        latex = self._sum().latex
        while self._kind() == "xor" or (
            self._next() in _BITWISE and not (self._next() == "|" and self._bars)
        ):
            token = self._take()
            latex += f" {_BITWISE.get(token, chr(92) + 'oplus')} {self._sum().latex}"
        return latex

    def _sum(self) -> _Term:
        term = self._product()
        while self._next() in ("+", "-"):
            term = _Term(f"{term.latex} {self._take()} {self._product().latex}")
        return term

    def _product(self) -> _Term:
        term = self._unary()
        while self._next() in ("*", "/", "//", "@"):
            operator = self._take()
            other = self._unary()
            if operator == "/":
                term = _Term(rf"\frac{{{term.bare}}}{{{other.bare}}}")
            elif operator == "//":
                term = _Term(rf"\left\lfloor\frac{{{term.bare}}}{{{other.bare}}}\right\rfloor")
            else:
                term = _Term(f"{term.latex} {chr(92)}{'cdot' if operator == '*' else ','} {other.latex}")
        return term

    def _unary(self) -> _Term:
        if self._next() in ("-", "+"):
            return _Term(self._take() + self._unary().latex)
        if self._next() in ("not", "~"):
            return _Term({"not": r"\text{not }", "~": r"\sim "}[self._take()] + self._unary().latex)
        term = self._power()
        while not term.is_word and self._starts_a_factor():
            term = _Term(rf"{term.latex}\, {self._power().latex}")
        return term

    def _starts_a_factor(self) -> bool:
        """Return whether the next token is multiplied without an operator: words of prose are not."""
        token, kind = self._next(), self._kind()
        if kind == "name":
            stem = token.rstrip("'").partition("_")[0]
            is_call = self._at + 1 < len(self._tokens) and self._tokens[self._at + 1][1:] == ("(", False)
            return (
                (len(stem) <= 2 and token not in ("if", "of", "to", "or", "in", "is", "at", "by", "as"))
                or stem in _GREEK
                or is_call
            )
        return kind == "number" or token in ("(", "...")

    def _power(self) -> _Term:
        term = self._atom()
        while self._next() in ("**", "^") and self._kind() != "xor":
            self._take()
            exponent = self._exponent()
            shown = {"T": r"\top", "H": r"\mathrm{H}"}.get(exponent, exponent)
            term = _Term(rf"{{{term.latex}}}^{{{shown}}}")
        return term

    def _exponent(self) -> str:
        if self._next() == "-":
            return self._take() + self._exponent()
        return self._power().bare

    def _atom(self) -> _Term:
        kind, token = self._kind(), self._take()
        if kind == "number":
            term = _Term(token)
        elif kind == "derivative":
            term = _Term(r"\frac{d}{dx}")
        elif kind == "quoted":
            term = _Term(rf"\text{{{_escaped(token)}}}")
        elif kind == "name":
            term = self._of_name(token)
        elif token == "(":
            items = self._items(")")
            term = _Term(rf"\left({items}\right)", items)
        elif token == "|":
            self._bars += 1
            inside = self._comparison()
            self._bars -= 1
            self._take("|")
            term = _Term(rf"\left|{inside}\right|")
        elif token == "...":
            term = _Term(r"\ldots")
        else:
            raise _NotCovered
        return self._suffixed(term)

    def _suffixed(self, term: _Term) -> _Term:
        while self._touches():
            if self._next() == "[":
                self._take()
                term = _Term(f"{{{term.latex}}}_{{{self._items(']')}}}")
            elif self._next() == ".T":
                self._take()
                term = _Term(rf"{{{term.latex}}}^{{\top}}")
            elif self._next() == "!":
                self._take()
                term = _Term(f"{term.latex}!")
            else:
                break
        return term

    def _items(self, closer: str) -> str:
        """Return the LaTeX of items up to a bracket; an item may be a slice."""
        items = [""]
        while self._next() != closer:
            if self._next() == ",":
                self._take()
                items.append("")
            elif self._next() == ":":
                items[-1] += self._take()
            elif items[-1] and not items[-1].endswith(":"):
                raise _NotCovered
            else:
                items[-1] += self._logic()
                if self._next() == "..":
                    self._take()
                    items[-1] += rf" \ldots {self._logic()}"
        self._take(closer)
        return ", ".join(items)

    def _of_name(self, name: str) -> _Term:
        if name == "sum" and self._next() == "over":
            self._take()
            index = self._comparison()
            self._take("of")
            return _Term(rf"\sum_{{{index}}} {self._product().latex}")
        if name == "integral":
            return self._integral()
        operator, _, index = name.partition("_")
        if operator in ("sum", "prod") and "_" in name:
            return self._big_operator(operator, index)
        if name.endswith("_"):
            self._take("(")
            return _Term(f"{_named(name[:-1])}_{{{self._items(')')}}}")
        if self._next() == "(" and self._touches():
            self._take()
            return self._call(name, self._items(")"))
        if (name in _FUNCTIONS or re.fullmatch(r"log\d+", name)) and self._kind() in ("name", "number"):
            return _Term(rf"{_operator(name)} {self._power().latex}")
        return _Term(_named(name))

    def _big_operator(self, operator: str, index: str) -> _Term:
        if not index:
            self._take("(")
            index = self._items(")")
            bounds = re.fullmatch(r"(.*) \\ldots (.*)", index)
            head = rf"\{operator}_{{{bounds[1]}}}^{{{bounds[2]}}}" if bounds else rf"\{operator}_{{{index}}}"
        else:
            head = rf"\{operator}_{{{index}}}"
        if self._next() == "(" and self._touches():
            self._take()
            items = self._items(")")
            return _Term(rf"\left({head} {items}\right)", f"{head} {items}")
        return _Term(f"{head} {self._product().latex}")

    def _integral(self) -> _Term:
        self._take("of")
        inside = self._product().latex
        self._take("from")
        low = self._sum().latex
        self._take("to")
        return _Term(rf"\int_{{{low}}}^{{{self._sum().latex}}} {inside}")

    def _call(self, name: str, arguments: str) -> _Term:
        if name == "sqrt":
            return _Term(rf"\sqrt{{{arguments}}}")
        if name == "conj":
            return _Term(rf"\overline{{{arguments}}}")
        if name == "abs":
            return _Term(rf"\left|{arguments}\right|")
        if name in ("floor", "ceil"):
            return _Term(rf"\left\l{name}{{}} {arguments} \right\r{name}")
        if name == "norm":
            inside, _, order = arguments.partition(", ")
            return _Term(rf"\left\lVert {inside} \right\rVert" + (rf"_{{{order}}}" if order else ""))
        if name == "gamma":
            return _Term(rf"\Gamma\left({arguments}\right)")
        if name == "zeta":
            return _Term(rf"\zeta\left({arguments}\right)")
        if len(name.partition("_")[0]) == 1 and name.rstrip("'"):
            return _Term(rf"{_named(name)}\left({arguments}\right)")
        return _Term(rf"{_operator(name)}\left({arguments}\right)")


def _operator(name: str) -> str:
    if re.fullmatch(r"log\d+", name):
        return rf"\log_{{{name[3:]}}}"
    return rf"\{name}" if name in _FUNCTIONS else rf"\operatorname{{{_escaped(name)}}}"
