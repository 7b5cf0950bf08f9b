"""Changes of pickles: opcodes are taken out, put in, repeated and exchanged, and get other arguments.

Bytes may hold several pickles one behind the other, and anything behind them, as the format before PyTorch 1.6 has it.
"""

import io
import pickle
import pickletools

GLOBALS = (
    *(
        "torch Tensor",
        "torch float32",
        "torch quint4x2",
        "torch FloatStorage",
        "torch LongStorage",
        "torch Size",
    ),
    *(
        "torch BFloat16Storage",
        "torch.storage UntypedStorage",
        "torch device",
        "torch Generator",
        "torch dtype",
    ),
    *("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3"),
    *("torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state"),
    *("torch._utils _rebuild_qtensor", "torch._utils _rebuild_sparse_tensor"),
    *("torch._utils _rebuild_meta_tensor_no_storage", "torch._utils _rebuild_nested_tensor"),
    *("torch._utils _rebuild_wrapper_subclass", "torch._utils _rebuild_device_tensor_from_numpy"),
    *("torch._tensor _rebuild_from_type_v2", "torch.nn.parameter Parameter", "torch.nn.parameter Buffer"),
    *("triten.dispatch.methods.pickling _rebuilt", "triten.nn Module", "triten Tensor", "triten.hub load"),
    *(
        "collections OrderedDict",
        "collections Counter",
        "builtins set",
        "builtins frozenset",
        "builtins complex",
    ),
    *(
        "builtins eval",
        "builtins getattr",
        "builtins bytearray",
        "os system",
        "posix system",
        "subprocess Popen",
    ),
    *("copyreg _reconstructor", "sys modules", "pathlib PosixPath", "numpy.core.multiarray _reconstruct"),
    *("torch.storage TypedStorage", "torch.serialization load", "_codecs encode", "builtins exec"),
)
PIECES = (
    *(
        b"(",
        b"0",
        b"1",
        b"2",
        b"N",
        b"R",
        b"b",
        b"e",
        b"d",
        b"}",
        b"]",
        b")",
        b"s",
        b"u",
        b"t",
        b"a",
        b"Q",
        b".",
    ),
    *(
        b"\x81",
        b"\x85",
        b"\x86",
        b"\x87",
        b"\x88",
        b"\x89",
        b"\x8f",
        b"\x90",
        b"\x91",
        b"\x92",
        b"\x93",
        b"\x94",
    ),
    *(
        b"K\x00",
        b"K\x07",
        b"J\xff\xff\xff\xff",
        b"G\x7f\xf8\0\0\0\0\0\0",
        b"G?\xf0\0\0\0\0\0\0",
        b"h\x00",
        b"q\x05",
    ),
    *(
        b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
        b"\x8a\x09" + b"\0" * 8 + b"\x01",
        b"\x8a\x01\xff",
        b"r\xff\xff\xff\x7f",
    ),
    *(b"X\x01\x00\x00\x00a", b"\x8c\x01a", b"C\x02ab", b"T\x02\x00\x00\x00ab", b"U\x01b", b"I12\n", b"L9L\n"),
    *(b"\x96\x02\0\0\0\0\0\0\0ab", b"B\x01\0\0\0a", b"\x80\x02", b"\x80\x05", b"\x82\x01", b"\x97", b"\x98"),
    *(b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\x7f", b"\x95" + b"\xff" * 8, b"\x8b\xff\xff\xff\x7f"),
    *(b"(0" * 300, b"2" * 600, b"\x85" * 400, b"]" * 300 + b"a" * 299, b"(K\x01K\x01K\x01t\x85\x85"),
)
NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    8,
    -1,
    127,
    255,
    256,
    65535,
    2**31 - 1,
    -(2**31),
    2**32,
    2**62,
    2**63 - 1,
    2**63,
    2**70,
)
TEXTS = ("cpu", "cuda:0", "cuda:99", "meta", "0", "1", "storage", "module", "", "a" * 100, "é", "xla:1")
NUMBER_CODES = ("BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE", "NONE")
TEXT_CODES = ("BINUNICODE", "SHORT_BINUNICODE")
GLOBAL_CODES = ("GLOBAL",)


def is_pickle(data):
    """Return True if the bytes begin with a pickle of protocol 2 or later."""
    return data[:1] == b"\x80" and len(_opcodes(data)) > 1


def _opcodes(data):
    """Return (name, begin, end) of each opcode, of all consecutive pickles."""
    found = []
    base = 0
    while data[base : base + 1] == b"\x80":
        stream = io.BytesIO(data[base:])
        try:
            for opcode, _, begin in pickletools.genops(stream):
                found.append((opcode.name, base + begin, base + stream.tell()))
        except Exception:
            break
        base = found[-1][2]
    return found


def draw(rng, data):
    """Generate a mutation: its kind, its opcode, and its arguments."""
    opcodes = _opcodes(data)
    at = rng.randrange(len(opcodes))
    match rng.randrange(7):
        case 0:
            return ["delete", at, rng.choice([1, 1, 1, 2, 3, rng.randint(1, 10)])]
        case 1:
            return ["insert", at, _draw_piece(rng).hex()]
        case 2:
            return ["copy", at, rng.randrange(len(opcodes)), rng.choice([1, 2, 3, 5, 10, rng.randint(1, 40)])]
        case 3:
            return ["exchange", at, rng.randrange(len(opcodes))]
        case _:
            fit = [number for number, (name, *_) in enumerate(opcodes) if _new(rng, name) is not None]
            chosen = rng.choice(fit or [at])
            made = _new(rng, opcodes[chosen][0]) or b"N"
            return ["replace", chosen, made.hex()]


def _draw_piece(rng):
    if rng.random() < 0.3:
        return b"c" + rng.choice(GLOBALS).replace(" ", "\n").encode() + b"\n"
    return rng.choice(PIECES)


def _new(rng, name):
    """Return a replacement for an opcode of this name; None if it has none."""
    if name in NUMBER_CODES:
        return rng.choice(
            [_number(rng.choice(NUMBERS)), _number(rng.choice(NUMBERS)), b"\x88", b"N", b"]", b")"]
        )
    if name in TEXT_CODES:
        text = rng.choice(TEXTS).encode()
        return b"X" + len(text).to_bytes(4, "little") + text
    if name in GLOBAL_CODES:
        return b"c" + rng.choice(GLOBALS).replace(" ", "\n").encode() + b"\n"
    return None


def _number(value):
    return pickle.dumps(value, 2)[2:-1]


def apply(data, kind, at, *rest):
    """Return the mutated bytes. Raises LookupError if there is no such opcode."""
    opcodes = _opcodes(data)
    _, begin, end = opcodes[at]
    if kind == "delete":
        return data[:begin] + data[opcodes[min(at + rest[0], len(opcodes)) - 1][2] :]
    if kind == "insert":
        return data[:begin] + bytes.fromhex(rest[0]) + data[begin:]
    if kind == "replace":
        return data[:begin] + bytes.fromhex(rest[0]) + data[end:]
    if kind == "copy":
        source = data[opcodes[rest[0]][1] : opcodes[min(rest[0] + rest[1], len(opcodes)) - 1][2]]
        return data[:begin] + source + data[begin:]
    first, second = sorted((at, rest[0]))
    if first == second:
        return data
    (_, a, b), (_, c, d) = opcodes[first], opcodes[second]
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]
