"""Changes of single fields in a ZIP archive's headers, the rest of the archive as it is."""

import struct

LOCAL = {"flags": (6, 2), "method": (8, 2), "crc": (14, 4), "compressed": (18, 4), "size": (22, 4),
         "name size": (26, 2), "extra size": (28, 2)}  # fmt: skip
CENTRAL = {"flags": (8, 2), "method": (10, 2), "crc": (16, 4), "compressed": (20, 4), "size": (24, 4),
           "name size": (28, 2), "extra size": (30, 2), "comment size": (32, 2), "disk": (34, 2),
           "offset": (42, 4)}  # fmt: skip
END = {"disk": (4, 2), "disks": (6, 2), "entries here": (8, 2), "entries": (10, 2), "directory size": (12, 4),
       "directory offset": (16, 4), "comment size": (20, 2)}  # fmt: skip
FIELDS = {"local": LOCAL, "central": CENTRAL, "end": END}
VALUES = (0, 1, 8, 12, 14, 64, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 2, 2**32 - 1)


class NoFieldError(ValueError):
    """An archive without the header."""


def draw(rng, count):
    """Generate a mutation: the header, the record, the field, and the number to add or set."""
    header = rng.choice(list(FIELDS))
    change = rng.choice([["add", rng.choice([1, -1, 2, 8, 64, -64, 1000])], ["set", rng.choice(VALUES)]])
    return [header, rng.randrange(count), rng.choice(list(FIELDS[header])), *change]


def apply(data, header, record, field, kind, number):
    """Return the mutated bytes."""
    end = data.rfind(b"PK\x05\x06")
    if end < 0 or len(data) < end + 22:
        raise NoFieldError("no directory")
    start = end
    if header != "end":
        start = struct.unpack_from("<I", data, end + 16)[0]
        for _ in range(record):
            if data[start : start + 4] != b"PK\x01\x02":
                raise NoFieldError("no such record")
            start += 46 + sum(struct.unpack_from("<3H", data, start + 28))
        if data[start : start + 4] != b"PK\x01\x02":
            raise NoFieldError("no such record")
    if header == "local":
        start = struct.unpack_from("<I", data, start + 42)[0]
    offset, size = FIELDS[header][field]
    at = start + offset
    if at + size > len(data):
        raise NoFieldError("no such field")
    old = int.from_bytes(data[at : at + size], "little")
    new = (old + number if kind == "add" else number) % (1 << 8 * size)
    return data[:at] + new.to_bytes(size, "little") + data[at + size :]
