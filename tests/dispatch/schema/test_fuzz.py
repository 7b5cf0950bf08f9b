"""Generated and damaged schema texts parse, or raise an error with a position.

``TRITEN_FUZZ_TEXTS`` sets their number; the default keeps the suite quick.
"""

import os
import random
import sys

from triten.dispatch.schema import SchemaError, parse_schema

TEXTS = int(os.environ.get("TRITEN_FUZZ_TEXTS", "4000"))
MAX_CALLS = 12
"""Calls of Python functions for each character of a text; some six are needed."""

TYPES = (
    "Tensor",
    "int",
    "SymInt",
    "float",
    "bool",
    "str",
    "Scalar",
    "ScalarType",
    "Device",
    "Layout",
    "Dimname",
)
NAMES = ("self", "other", "x", "dim", "out", "alpha", "Tensor", "from", "n1", "_y")
DEFAULTS = (
    "0",
    "-1",
    "1.5",
    "1e-05",
    "None",
    "True",
    "'text'",
    '"a\\"b"',
    "[]",
    "[1, 2]",
    "Mean",
    "float",
    "inf",
)
PIECES = (
    *TYPES,
    *NAMES,
    *DEFAULTS,
    *"()[]{}*!?,.:=->| \t\n\\'\"",
    "->",
    "(a!)",
    "(a -> *)",
    "...",
    "::",
    "é",
    "\0",
)


def a_type(rng: random.Random) -> str:
    text = rng.choice(TYPES) if rng.random() < 0.5 else "Tensor"
    if rng.random() < (0.25 if text == "Tensor" else 0.02):
        text += rng.choice(("(a)", "(a!)", "(b!)", "(a|b)", "(a -> *)", "(*)"))
    return text + rng.choice(("", "", "", "", "?", "[]", "[]?", "[2]", "[0]", "[][]"))


def an_argument(rng: random.Random) -> str:
    text = f"{a_type(rng)} {rng.choice(NAMES)}"
    return f"{text}={rng.choice(DEFAULTS)}" if rng.random() < 0.15 else text


def a_schema(rng: random.Random) -> str:
    arguments = [an_argument(rng) for _ in range(rng.randrange(4))]
    if rng.random() < 0.3:
        arguments.insert(rng.randrange(len(arguments) + 1), "*")
    if rng.random() < 0.05:
        arguments.append("...")
    returns = [
        a_type(rng) + (f" {rng.choice(NAMES)}" if rng.random() < 0.2 else "") for _ in range(rng.randrange(3))
    ]
    result = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    name = rng.choice(("f", "aten::add", "ns::f.out", "add_", "ns::_g.default"))
    return f"{name}({', '.join(arguments)}) -> {result}"


def damaged(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + rng.randrange(1, 4) :]
        elif kind == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at:][::-1]
        else:
            end = rng.randrange(len(text) + 1)
            text = text[:at] + text[min(at, end) : max(at, end)] * rng.randrange(1, 4) + text[at:]
    return text[:2000]


def test_any_text_is_a_schema_or_refused_with_a_place() -> None:
    rng = random.Random(20261121)
    schemas = refusals = 0
    for _ in range(TEXTS):
        text = damaged(a_schema(rng), rng)
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            schema = parse_schema(text)
        except SchemaError as error:
            sys.setprofile(None)
            refusals += 1
            assert 0 <= error.position <= len(text), text
            assert str(error), text
        else:
            sys.setprofile(None)
            schemas += 1
            assert parse_schema(str(schema)) == schema, text
        assert calls <= MAX_CALLS * (len(text) + 20), text
    assert schemas > TEXTS // 20
    assert refusals > TEXTS // 20


def test_deep_and_long_texts_end() -> None:
    for text in (
        "f(" + "(" * 5000,
        "f(Tensor" + "[]" * 5000 + " x) -> Tensor",
        "f(int x=" + "[" * 5000,
        "f" * 100_000,
    ):
        try:
            parse_schema(text)
        except SchemaError as error:
            assert error.position <= len(text)
