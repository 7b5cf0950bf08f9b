"""Mutations of a file: each is a JSON list, ``[kind, path of the part, further arguments]``.

`draw` generates a mutation for a given file, `apply` applies it. A mutation that no longer fits, since
shrinking removed an earlier one, changes nothing. Byte mutations apply anywhere; structural mutations apply
to parts that are JSON, pickles or archives.
"""

import zipfile

from triten.tests.fuzz.files import json_trees, pickles, zip_fields
from triten.tests.fuzz.files.parts import Archive, NoPartsError, changed_at, container_of, leaves

MOST = 1 << 22
"""Bytes of a changed file; a change beyond counts as none."""
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)
METHODS = {"deflated": zipfile.ZIP_DEFLATED, "bzip2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA}


def apply(data, change):
    """Return the mutated file."""
    kind, path, *rest = change
    try:
        made = changed_at(data, path, lambda part: KINDS[kind](part, *rest))
    except (NoPartsError, zip_fields.NoFieldError, ValueError, LookupError, TypeError, RecursionError):
        return data
    return made if len(made) <= MOST else data


def draw(rng, data):
    """Generate a mutation for this file."""
    try:
        return _drawn(rng, data)
    except (ValueError, LookupError, RecursionError):
        # Earlier changes left nothing of its structure.
        return ["bytes", [], *_draw_bytes(rng, data)]


def _drawn(rng, data):
    kind = container_of(data)
    # Bytes of the whole file: what stands before the checksums.
    if kind is None or rng.random() < 0.25:
        return _draw_leaf(rng, [], data)
    if kind is Archive and rng.random() < 0.35:
        return _draw_archive(rng, data)
    path, part = rng.choice(list(leaves(data)))
    return _draw_leaf(rng, path, part)


def _draw_leaf(rng, path, part):
    if json_trees.is_json(part) and rng.random() < 0.85:
        return ["json", path, *json_trees.draw(rng, part)]
    if pickles.is_pickle(part) and rng.random() < 0.8:
        return ["pickle", path, *pickles.draw(rng, part)]
    return ["bytes", path, *_draw_bytes(rng, part)]


def _draw_archive(rng, data):
    names = list(Archive.split(data))
    if rng.random() < 0.5:
        return ["field", [], *zip_fields.draw(rng, len(names))]
    name, other = rng.choice(names), rng.choice(names)
    match rng.randrange(4):
        case 0:
            return ["remove record", [], name]
        case 1:
            return ["copy record", [], name, rng.choice([other, other + "2", "x/" + other, "../" + name, ""])]
        case 2:
            # A large record, which a small file may hold, takes long to make by the other methods.
            method, mebibytes = rng.choice([*((each, 0) for each in METHODS), ("deflated", 64)])
            return ["compress", [], name, method, mebibytes]
        case _:
            return ["exchange records", [], name, other]


def _draw_bytes(rng, data):
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0:
            return ["replace", at, bytes([rng.choice([*INTERESTING, rng.randrange(256)])]).hex()]
        case 1:
            return ["flip", at, 1 << rng.randrange(8)]
        case 2:
            return ["delete", at, rng.choice([1, 2, 4, 8, rng.randint(1, 200)])]
        case 3:
            return ["insert", at, rng.randbytes(rng.choice([1, 2, 4, 8, rng.randint(1, 64)])).hex()]
        case 4:
            return ["copy", at, rng.randrange(len(data) + 1), rng.choice([1, 4, 8, rng.randint(1, 200)])]
        case _:
            return ["truncate", at]


def _bytes(data, kind, at, *rest):
    at = min(at, len(data))
    if kind == "replace":
        return data[:at] + bytes.fromhex(rest[0]) + data[at + len(rest[0]) // 2 :]
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ rest[0]]) + data[at + 1 :] if at < len(data) else data
    if kind == "delete":
        return data[:at] + data[at + rest[0] :]
    if kind == "insert":
        return data[:at] + bytes.fromhex(rest[0]) + data[at:]
    if kind == "copy":
        return data[:at] + data[rest[0] : rest[0] + rest[1]] + data[at:]
    return data[:at]


def _remove_record(data, name):
    parts = Archive.split(data)
    del parts[name]
    return Archive.join(parts)


def _copy_record(data, name, other):
    parts = Archive.split(data)
    return Archive.join({**parts, other: parts[name]})


def _exchange_records(data, name, other):
    parts = Archive.split(data)
    parts[name], parts[other] = parts[other], parts[name]
    return Archive.join(parts)


def _compress(data, name, method, mebibytes):
    parts = Archive.split(data)
    if mebibytes:
        parts[name] = bytes(mebibytes << 20)
    return Archive.join(parts, {name: METHODS[method]})


KINDS = {
    "bytes": _bytes,
    "json": json_trees.apply,
    "pickle": pickles.apply,
    "field": zip_fields.apply,
    "remove record": _remove_record,
    "copy record": _copy_record,
    "exchange records": _exchange_records,
    "compress": _compress,
}
