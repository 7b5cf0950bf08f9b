"""Changes of JSON: values at a place are set, removed, renamed, or copied from another place."""

import json

NUMBERS = (
    *(0, 1, 2, 3, 7, 8, -1, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30),
    *(0.5, -0.0, 1e308),
)
TEXTS = (
    *(
        "",
        "x",
        "float32",
        "F64",
        "F4",
        "BOOL",
        "cpu",
        "cuda",
        "meta",
        "U8",
        "\0",
        "..",
        "../x",
        "/etc/passwd",
    ),
    *("aten::from_file", "aten::mm", "aten::relu", "getitem", "output", "\ud800", "a" * 300),
)
RAW = {"deep list": "[" * 20_000 + "]" * 20_000, "deep dict": '{"a":' * 5000 + "1" + "}" * 5000,
       "long number": "1" * 5000, "many digits": "1" * 4000, "infinity": "1e999", "not a number": "NaN",
       "wide": "[" + ",".join(["0"] * 2000) + "]", "deep 400": "[" * 400 + "]" * 400}  # fmt: skip
"""Texts that stand for a value."""
MARK = "@raw@"


def is_json(data):
    """Return True if the bytes are a JSON object or list."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def draw(rng, data):
    """Generate a mutation: its kind, its place, and its arguments."""
    tree = json.loads(data)
    places = list(_places(tree))
    place = rng.choice(places)
    match rng.randrange(8):
        case 0:
            return ["remove", place]
        case 1:
            return [
                "rename",
                place,
                rng.choice([*TEXTS, *(str(each[-1]) for each in rng.sample(places, 1) if each)]),
            ]
        case 2 | 3:
            return ["copy", place, rng.choice(places)]
        case _:
            return ["set", place, *_draw_value(rng, _at(tree, place))]


def _draw_value(rng, old):
    if rng.random() < 0.06:
        return ["raw", rng.choice(list(RAW))]
    if type(old) is int and rng.random() < 0.7:
        return ["value", rng.choice([old + 1, old - 1, old * 2, -old, old + 8, *NUMBERS])]
    if type(old) is str and rng.random() < 0.7:
        return ["value", rng.choice([*TEXTS, old + "x", old[:-1], old.upper()])]
    if type(old) is list and rng.random() < 0.5:
        return ["value", rng.choice([old[::-1], old + old, old[1:], [*old, 0], [0] * 70])]
    return ["value", rng.choice([None, True, False, [], {}, [1], {"a": 1}, [[]], *NUMBERS, *TEXTS])]


def apply(data, kind, place, *rest):
    """Return the mutated bytes. Raises LookupError if there is no such place."""
    tree = json.loads(data)
    raw = ""
    if kind == "copy":
        tree = _put(tree, place, json.loads(json.dumps(_at(tree, rest[0]))))
    elif kind == "remove":
        if place:
            del _at(tree, place[:-1])[place[-1]]
    elif kind == "rename":
        owner = _at(tree, place[:-1])
        if type(owner) is dict and place:
            items = [(rest[0] if key == place[-1] else key, value) for key, value in owner.items()]
            owner.clear()
            owner.update(items)
    elif rest[0] == "raw":
        raw = RAW[rest[1]]
        tree = _put(tree, place, MARK)
    else:
        tree = _put(tree, place, rest[1])
    text = json.dumps(tree, separators=(",", ":"))
    return text.replace(f'"{MARK}"', raw).encode() if raw else text.encode()


def _places(tree, path=(), depth=0):
    yield list(path)
    if depth > 30:
        return
    if type(tree) is dict:
        children = list(tree.items())
    elif type(tree) is list:
        children = list(enumerate(tree[:50]))
    else:
        return
    for key, value in children:
        yield from _places(value, (*path, key), depth + 1)


def _at(tree, place):
    for key in place:
        tree = tree[key]
    return tree


def _put(tree, place, value):
    if not place:
        return value
    _at(tree, place[:-1])[place[-1]] = value
    return tree
