"""Mutations of a case's other arguments, and of the call as a whole: its form, its ``out=``, its list of arguments."""

import random
from typing import Any

import numpy as np

from .mutations import DTYPES, Case
from .values import argument_places, is_tensor, new_tensor, put, tensor_places

WRONG = (
    None,
    "a",
    {"object": "object"},
    {"dtype": "float32"},
    [],
    {"tuple": []},
    {"empty dict": True},
    True,
    1.5,
)
INTEGERS = (
    0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    5,
    -6,
    64,
    -65,
    127,
    2**31,
    -(2**31) - 1,
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64,
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf"))


def number(rng: random.Random, case: Case) -> bool:
    """Replace an int, float or bool by an edge value or by a value of another type."""
    found = [(path, value) for path, value in argument_places(case) if isinstance(value, bool | int | float)]
    if not found:
        return False
    path, value = rng.choice(found)
    put(case, path, _another(rng, case, value))
    return True


def _another(rng: random.Random, case: Case, value: bool | float) -> Any:
    match rng.randrange(10):
        case 0:
            return rng.choice(WRONG)
        case 1:
            return (
                {
                    "numpy": [
                        rng.choice(("int64", "int32", "uint8", "float32", "float64", "bool")),
                        min(abs(int(value if abs(value) < 100 else 7)), 100),
                    ]
                }
                if value == value
                else None
            )
        case 2:
            return rng.choice((True, False, {"complex": [1.0, 2.0]}, float(rng.choice(INTEGERS[:10]))))
        case 3:
            name = rng.choice(("int64", "float32", "bool", "int32"))
            return new_tensor(case, name, np.ones(rng.choice(((), (), (1,), (2,)))))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((*INTEGERS, value + 1, value - 1, -value))
    return rng.choice(FLOATS)


def series(rng: random.Random, case: Case) -> bool:
    """Add, remove or repeat an item of a list argument."""
    found = [
        (path, value)
        for path, value in argument_places(case)
        if isinstance(value, list) or (isinstance(value, dict) and "tuple" in value)
    ]
    if not found:
        return False
    path, value = rng.choice(found)
    items = list(value if isinstance(value, list) else value["tuple"])
    match rng.randrange(6):
        case 0 if items:
            items.pop(rng.randrange(len(items)))
        case 1 if items:
            items.insert(rng.randrange(len(items)), rng.choice(items))
        case 2:
            items = []
        case 3:
            items.append(rng.choice((0, -1, 1, None, 2**63, "a", 1.5)))
        case 4 if items:
            put(case, path, items[0])
            return True
        case _:
            items.reverse()
    put(case, path, items if isinstance(value, list) else {"tuple": items})
    return True


def another_type(rng: random.Random, case: Case) -> bool:
    """Replace any argument by a value of a wrong type."""
    found = argument_places(case)
    if not found:
        return False
    path, value = rng.choice(found)
    others = [*WRONG, 1, -1, {"complex": [1.0, 2.0]}, {"numpy": ["float32", 2.0]}, {"array": [1.0, 2.0]}]
    if is_tensor(value):
        others += [[value], {"tuple": [value, value]}, 2, 0.5]
    put(case, path, rng.choice(others))
    return True


def text(rng: random.Random, case: Case) -> bool:
    """Replace a string or a dtype."""
    found = [
        (path, value)
        for path, value in argument_places(case)
        if isinstance(value, str) or (isinstance(value, dict) and "dtype" in value)
    ]
    if not found:
        return False
    path, value = rng.choice(found)
    if isinstance(value, str):
        put(case, path, rng.choice(("", "none", "mean", "sum", value.upper(), value + "x", None, 3)))
    else:
        put(case, path, rng.choice([{"dtype": rng.choice(DTYPES)}] * 5 + [None, "float32", 6]))
    return True


def call(rng: random.Random, case: Case) -> bool:
    """Remove, add or swap arguments, or pass one by an unknown keyword."""
    arguments, named = case["arguments"], case["named"]
    match rng.randrange(6):
        case 0 if arguments:
            arguments.pop(rng.randrange(len(arguments)))
        case 1 if named:
            del named[rng.choice(sorted(named))]
        case 2:
            arguments.append(rng.choice((0, 1, -1, 1.5, True, "a")))  # a superfluous None is overlooked
        case 3 if len(arguments) > 1:
            one, other = rng.sample(range(len(arguments)), 2)
            arguments[one], arguments[other] = arguments[other], arguments[one]
        case 4:
            named[rng.choice(("dim", "keepdim", "dtype", "nothing", "input", "self", "other"))] = rng.choice(
                (0, None, True, -1, {"dtype": "float64"})
            )
        case 5 if named:
            name = rng.choice(sorted(named))
            arguments.append(named.pop(name))
        case _:
            return False
    return True


def dim(rng: random.Random, case: Case) -> bool:
    """Replace a dimension: out of range, repeated, negative, or of a wrong type."""
    found = [(path, value) for path, value in argument_places(case) if path[-1] in ("dim", "dims", "axis")]
    if not found:
        return False
    path, _ = rng.choice(found)
    put(
        case,
        path,
        rng.choice(
            (0, -1, 1, -2, 7, -8, 2**40, [0, 0], [0, -1], [], {"tuple": [1, 0]}, None, 1.0, True, "N")
        ),
    )
    return True


def output(
    rng: random.Random, case: Case, results: tuple[tuple[tuple[int, ...], str], ...], single: bool
) -> None:
    """Add ``out=``: fitting, of another dtype or size, strided, or over an operand's memory."""
    outputs = [_output(rng, case, sizes, name) for sizes, name in results]
    if rng.random() < 0.05:
        outputs = outputs[:-1] or [outputs[0], outputs[0]]
        single = False
    case["named"]["out"] = outputs[0] if single else {"tuple": outputs}


def _output(rng: random.Random, case: Case, sizes: tuple[int, ...], name: str) -> Any:
    kind = rng.randrange(9)
    if kind == 0:
        name = rng.choice(DTYPES)
    elif kind == 1:
        sizes = rng.choice(((), (0,), (*sizes, 2), sizes[1:], (1, *sizes)))
    elif kind == 2 and tensor_places(case):
        shared = dict(rng.choice(tensor_places(case))[1])
        shared.pop("grad", None)
        return shared
    elif kind == 3 and sizes:
        step = rng.choice((2, 3, 4, 5, 8, 16))
        new = new_tensor(case, name, np.full((*sizes[:-1], step * sizes[-1]), 7))
        new["tensor"][1] = list(sizes)
        new["tensor"][2][-1] = step
        return new
    elif kind == 4 and len(sizes) > 1:
        new = new_tensor(case, name, np.full(sizes[::-1], 7))
        new["tensor"][1:3] = [new["tensor"][1][::-1], new["tensor"][2][::-1]]
        return new
    elif kind == 5:
        return (
            rng.choice((None, 1, [], "a"))
            if rng.random() < 0.3
            else new_tensor(case, name, np.full(sizes, 7))
        )
    return new_tensor(case, name, np.full(sizes, 7))


OF_NUMBERS = {number: 8, series: 3, another_type: 2, text: 3, call: 2, dim: 4}
"""With their weights."""
