"""Malicious pickles are refused at low cost, and leave the process unchanged."""

import collections
import enum
import io
import pickle
import re
import struct
import sys

import pytest

import triten as tt

pytestmark = pytest.mark.usefixtures("unchanged")
PROTO = b"\x80\x02"


def name(module, qualname):
    return f"c{module}\n{qualname}\n".encode()


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def attributes(**values):
    return b"}" + b"".join(text(key) + number(value) + b"s" for key, value in values.items())


def storage(count=4, kind="FloatStorage", key="0", location="cpu"):
    return b"(" + text("storage") + name("torch", kind) + text(key) + text(location) + number(count) + b"tQ"


def tensor(offset, size, stride, rest=b"\x89N", **options):
    arguments = storage(**options) + number(offset) + numbers(size) + numbers(stride) + rest
    return PROTO + name("torch._utils", "_rebuild_tensor_v2") + b"(" + arguments + b"tR."


def of_type(kind):
    """Return the call that rebuilds a tensor of a class from a Meta tensor."""
    function = name("torch._utils", "_rebuild_meta_tensor_no_storage")
    arguments = b"(" + name("torch", "float32") + numbers([2]) + numbers([1]) + b"\x89t"
    return name("torch._tensor", "_rebuild_from_type_v2") + b"(" + function + kind + arguments + b"Nt"


def refused(data, message, error=pickle.UnpicklingError):
    with pytest.raises(error, match=message):
        tt.load(io.BytesIO(data))


OWNERS = {
    "a class of tensors": name("torch", "Tensor"),
    "a class of parameters": name("torch.nn.parameter", "Parameter"),
    "a dtype": name("torch", "float32"),
    "a class of the library": name("collections", "Counter"),
    "a function": name("torch._utils", "_rebuild_tensor_v2"),
    "a device": name("torch", "device") + text("cpu") + b"\x85R",
    "a size": name("torch", "Size") + b")\x85R",
    "a list": b"]",
    "a type of storages": name("torch", "FloatStorage"),
}


@pytest.mark.parametrize(
    "state", [attributes(relu=1, itemsize=1, most_common=1, _spec=1), b"N" + attributes(name=1) + b"\x86"]
)
@pytest.mark.parametrize("owner", OWNERS)
def test_no_state_is_set_on(archive, owner, state):
    refused(
        archive(PROTO + OWNERS[owner] + state + b"b."),
        "Can only build Tensor, Parameter, OrderedDict or types allow",
    )


def test_no_state_is_set_on_a_tensor_or_a_parameter(archive):
    plain = tensor(0, [4], [1])[2:-1]
    for value in (plain, name("torch._utils", "_rebuild_parameter") + plain + b"\x89)\x87R"):
        refused(
            archive(PROTO + value + attributes(_spec=1) + b"b.", {"0": bytes(16)}), "Can only build Tensor"
        )


def test_attributes_that_hide_methods(archive):
    made = name("collections", "OrderedDict") + b")R"
    refused(
        archive(PROTO + made + attributes(items=1) + b"b."),
        "OrderedDict takes no attribute items from a file",
    )
    found = tt.load(io.BytesIO(archive(PROTO + made + attributes(_metadata=3) + b"b.")))
    assert found._metadata == 3
    parameter = name("torch._utils", "_rebuild_parameter_with_state") + b"("
    parameter += tensor(0, [4], [1])[2:-1] + b"\x89)"
    for key in ("relu", "_spec", "__class__", "grad"):
        data = archive(PROTO + parameter + attributes(**{key: 1}) + b"tR.", {"0": bytes(16)})
        refused(data, f"a Parameter takes no attribute '{key}' from a file")
    assert (
        tt.load(io.BytesIO(archive(PROTO + parameter + attributes(tag=1) + b"tR.", {"0": bytes(16)}))).tag
        == 1
    )


@pytest.mark.parametrize(
    "module", ["triten.perf.report", "triten.testing", "this", "xml.dom.minidom", "triten"]
)
def test_names_are_not_imported(archive, module):
    loaded = module in sys.modules
    refused(
        archive(PROTO + name(module, "Tensor") + b"."), f"GLOBAL {module}.Tensor was not an allowed global"
    )
    stacked = b"\x80\x04" + b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c\x06Tensor\x93."
    refused(archive(stacked), f"GLOBAL {module}.Tensor was not an allowed global")
    assert (module in sys.modules) is loaded


def test_messages_name_the_global_and_how_to_allow_it(archive):
    message = (
        "Weights only load failed. Unsupported global: GLOBAL eval was not an allowed global by default. Please use "
        "`triten.serialization.add_safe_globals([eval])` or the `triten.serialization.safe_globals([eval])` context "
        "manager to allowlist this global if you trust this class/function."
    )
    # By its name in Python 3 and 2.
    for module in ("builtins", "__builtin__"):
        refused(archive(PROTO + name(module, "eval") + b"."), re.escape(message))
    refused(
        archive(PROTO + name("evil\x1b[31m", "name") + b"."), re.escape(r"GLOBAL 'evil\x1b[31m.name' was not")
    )
    refused(archive(PROTO + name("a" * 10**6, "b") + b"."), r"GLOBAL a{200}\.\.\. was not an allowed global")


def test_blocked_modules_stay_so_when_they_are_allowed(archive):
    import posix

    with tt.serialization.safe_globals([posix.system, (posix.system, "os.system")]):
        for module in ("os", "posix", "sys", "nt"):
            data = archive(PROTO + name(module, "system") + text("true") + b"\x85R.")
            refused(
                data, f"Trying to load unsupported GLOBAL {module}.system whose module {module} is blocked."
            )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (name("_codecs", "encode") + text("x") + text("rot13") + b"\x86", "'encoding' must be 'latin1'"),
        (name("_codecs", "encode") + text("\u1234") + text("latin1") + b"\x86", "characters below 256"),
        (
            name("builtins", "bytearray") + number(1 << 40) + b"\x85",
            "'source' must be bytes or bytearray, not int",
        ),
        (name("builtins", "bytes") + number(1 << 40) + b"\x85", "bytes: a tuple of 0 arguments expected"),
        (name("builtins", "complex") + text("1") + b"\x85", "complex: a tuple of 2 arguments expected"),
        (name("builtins", "set") + text("abc") + b"\x85", "'elements' must be list or tuple or set, not str"),
        (name("builtins", "set") + b"](]e\x85", "unhashable type: 'list'"),
        (name("collections", "OrderedDict") + b"](Ne\x85", "pairs of a key and a value expected"),
        (name("collections", "Counter") + text("abc") + b"\x85", "'counts' must be dict, not str"),
        (name("torch", "Size") + text("ab") + b"\x85", "'sizes' must be tuple or list or Size, not str"),
        (
            name("torch", "device") + text("cpu") + text("x") + b"\x86",
            "'index' must be int or NoneType, not str",
        ),
        (name("torch.serialization", "_get_layout") + text("x") + b"\x85", "'x' is no layout here"),
        (name("torch", "Tensor") + number(1 << 40) + b"\x85", "reduce for unrecognized function"),
        (name("torch", "float32") + b")", "reduce for unrecognized function <class 'triten"),
        (
            name("torch._utils", "_rebuild_tensor_v2") + b")",
            "a tuple of 4 or 6 or 7 arguments expected, got 0 of them",
        ),
        (name("torch._utils", "_rebuild_tensor_v2") + b"]", "arguments expected, got 'list'"),
        (name("torch._utils", "_rebuild_parameter") + b"N\x88)\x87", "'data' must be Tensor, not NoneType"),
        (of_type(name("torch", "Size")), "a class of tensors that is allowed is expected, got Size"),
        (of_type(b"N"), "a class of tensors that is allowed is expected, got a NoneType"),
        (
            name("torch._tensor", "_rebuild_from_type_v2") + b"(NNNNt",
            "must be a function that rebuilds a tensor",
        ),
        (text("x") + b")", "reduce for unrecognized function <class 'str'>"),
    ],
)
def test_arguments_of_calls(archive, call, message):
    refused(archive(PROTO + call + b"R."), message)


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ((0, [5], [1]), "requiring a storage size of 20 are out of bounds for storage of size 16"),
        ((1, [4], [1]), "requiring a storage size of 20 are out of bounds for storage of size 16"),
        ((4, [1], [1]), "out of bounds"),
        ((0, [2, 2], [3, 1]), "out of bounds"),
        ((-1, [1], [1]), "'storage_offset' must not be negative"),
        ((0, [4], [-1]), "'stride' must not be negative"),
        ((0, [-1], [1]), "'size' must not be negative"),
        ((0, [1 << 62, 1 << 62], [0, 0]), "'size' must fit 64 bits"),
        ((0, [1 << 32, 1 << 32], [0, 0]), "product of the sizes .* overflows"),
        ((0, [0, 1 << 60, 1 << 60], [0, 0, 0]), "product of the sizes .* overflows"),
        ((0, [2], [1 << 61]), "'stride' must fit 64 bits"),
        ((0, [1], [1 << 70]), "'stride' must fit 64 bits"),
        ((1 << 62, [1], [1]), "'storage_offset' must fit 64 bits"),
        ((0, [1, 1], [1]), "as many strides expected, got 2 and 1"),
        ((0, [1] * 65, [0] * 65), "at most 64 sizes"),
    ],
)
def test_tensors_lie_in_their_storages(archive, geometry, message):
    refused(archive(tensor(*geometry), {"0": bytes(16)}), message, RuntimeError)


@pytest.mark.parametrize("offset", [0, 4, 11, (1 << 61) - 1])
def test_a_tensor_without_elements_touches_no_memory(archive, offset):
    found = tt.load(io.BytesIO(archive(tensor(offset, [0, 3], [3, 1]), {"0": bytes(16)})))
    assert found.shape == (0, 3) and found.tolist() == []


@pytest.mark.parametrize(
    ("options", "message", "error"),
    [
        ({"count": 1 << 62}, "expected 18446744073709551616 got 16", RuntimeError),
        ({"count": 5}, "storage has wrong byte size: expected 20 got 16", RuntimeError),
        ({"count": 1}, "storage has wrong byte size: expected 4 got 16", RuntimeError),
        ({"count": -1}, "a storage has a number of elements", pickle.UnpicklingError),
        ({"key": "1"}, "no record 'data/1'", RuntimeError),
        ({"key": "../../secret"}, "no record", RuntimeError),
        ({"key": "0" * 100}, "a short key", pickle.UnpicklingError),
        (
            {"location": "nowhere\x1b"},
            r"don't know how to restore .* \(tagged with 'nowhere\\x1b'\)",
            RuntimeError,
        ),
        ({"location": "cuda:" + "9" * 5000}, "don't know how to restore data location", RuntimeError),
        ({"location": "cuda:77"}, "map_location", RuntimeError),
    ],
)
def test_storages_are_what_the_file_has(archive, options, message, error):
    refused(archive(tensor(0, [1], [1], **options), {"0": bytes(16)}), message, error)


@pytest.mark.parametrize(
    "pid",
    [
        text("storage"),
        b")",
        b"(" + text("module") + b"NNNNt",
        b"(" + text("storage") + b"NNNNt",
        b"(" + text("storage") + name("torch", "FloatStorage") + number(0) + text("cpu") + number(4) + b"t",
        b"(" + text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") + b"\x88t",
    ],
)
def test_persistent_ids_are_those_of_storages(archive, pid):
    refused(archive(PROTO + pid + b"Q.", {"0": bytes(16)}), "storage|persistent_load id must be tuple")


def test_a_storage_on_meta_takes_no_memory(archive):
    found = tt.load(io.BytesIO(archive(tensor(0, [1 << 50], [1], count=1 << 50, location="meta", key="9"))))
    assert found.is_meta and found.shape == (1 << 50,)


def conjugated(size, stride, count):
    bit = b"\x89N}" + text("conj") + b"\x88s"
    return tensor(0, size, stride, rest=bit, kind="ComplexFloatStorage", count=count)


def test_conjugating_takes_no_more_memory_than_the_file_accounts_for(archive):
    found = tt.load(io.BytesIO(archive(conjugated([3, 1 << 50], [1, 0], 3), {"0": bytes(24)})))
    assert found.shape == (3, 1 << 50) and found.stride() == (1, 0)
    windows = conjugated([5000, 5000], [1, 1], 9999)
    refused(archive(windows, {"0": bytes(8 * 9999)}), "larger than its storages account for", RuntimeError)


NESTED = b")" + b"\x85" * 100_000
DOUBLED = b")q\x00" + b"h\x00\x86q\x00" * 60


DOUBLED_LISTS = b"N\x85q\x00" + b"](h\x00h\x00eq\x00" * 60


@pytest.mark.parametrize("value", [NESTED, DOUBLED, DOUBLED_LISTS], ids=["nested", "doubled", "lists"])
def test_nesting_is_no_recursion(archive, value):
    assert type(tt.load(io.BytesIO(archive(PROTO + value + b".")))) in (tuple, list)


LONG = b"\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6


@pytest.mark.parametrize("value", [NESTED, DOUBLED, LONG], ids=["nested", "doubled", "long"])
def test_keys_are_hashed_cheaply(archive, value):
    message = "more than 1000 values or is nested more than 50 deep"
    for data in (
        PROTO + b"}" + value + b"Ns.",
        b"\x80\x04\x8f(" + value + b"\x90.",
        PROTO + b"}(" + value + b"Nu.",
    ):
        refused(archive(data), message)
    refused(archive(PROTO + name("builtins", "set") + b"](" + value + b"e\x85R."), message)


def test_keys_of_the_same_hash(archive):
    modulus = sys.hash_info.modulus
    keys = b"".join(number(modulus * i) + b"N" for i in range(1, 3000))
    data = archive(PROTO + b"}(" + keys + b"u.")
    refused(data, "take longer than its size accounts for")
    # Equally many large keys load if their hashes differ, and so do colliding keys in different dicts.
    large = {modulus * 5 + i: None for i in range(3000)}
    alike = [{modulus: i, (1, 2): i, -1.5: i} for i in range(3000)]
    frozen = [frozenset({(1, 2), modulus}) for _ in range(3000)]
    file = io.BytesIO()
    tt.save([large, alike, frozen], file, pickle_protocol=4)
    with tt.serialization.safe_globals([frozenset]):
        assert tt.load(io.BytesIO(file.getvalue())) == [large, alike, frozen]
    refused(file.getvalue(), "GLOBAL frozenset was not an allowed global")


def test_keys_that_are_no_threat(archive):
    value = {(1, (2, "three")): 1, 2**70: 2, None: 3, tt.float32: 4, tt.Size([1, 2]): 5, 1.5: 6, b"x": 7}
    file = io.BytesIO()
    tt.save([value, set(value)], file)
    assert tt.load(io.BytesIO(file.getvalue())) == [value, set(value)]


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        (text("a" * 10**6), name("_codecs", "encode") + b"h\x00" + text("latin1") + b"\x86R"),
        (
            b"](" + b"".join(b"M" + struct.pack("<H", i) for i in range(60_000)) + b"e",
            name("builtins", "set") + b"h\x00\x85R",
        ),
        (b"](" + b"K\x01N\x86" * 50_000 + b"e", name("collections", "OrderedDict") + b"h\x00\x85R"),
        (
            name("_codecs", "encode") + text("a" * 10**5) + text("latin1") + b"\x86R",
            name("builtins", "bytearray") + b"h\x00\x85R",
        ),
    ],
    ids=["bytes", "set", "OrderedDict", "bytearray"],
)
def test_copies_are_in_proportion_to_the_file(archive, argument, call):
    refused(
        archive(PROTO + argument + b"q\x000](" + call * 1000 + b"e."),
        "copies more than its size accounts for",
    )


@pytest.mark.parametrize(
    "data",
    [
        PROTO + b"\x8b" + struct.pack("<i", 2**31 - 1) + b".",
        b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b"N.",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",
        b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".",
        PROTO + b"T" + struct.pack("<i", -1) + b".",
        PROTO + b"L" + b"9" * 5000 + b"L\n.",
        PROTO + b"I1_0\n.",
        PROTO + b"X\xff",
        PROTO + b"cno line",
    ],
)
def test_lengths_are_those_of_the_file(archive, data):
    refused(archive(data), "truncated|exhausted before end of frame|negative byte count|digits expected")


@pytest.mark.parametrize(
    "code",
    [b"i", b"o", b"P", b"S", b"V", b"F", b"g", b"p", b"l", b"d", b"\x82", b"\x83", b"\x84", b"\x97", b"\x98"],
)
def test_opcodes_that_no_such_pickle_has(archive, code):
    refused(archive(PROTO + b"(" + code + b"1\n1\n1\n."), f"Unsupported operand {code[0]}")


@pytest.mark.parametrize(
    "data",
    [
        b".",
        b"t.",
        b"e.",
        b"]e.",
        b"0.",
        b"1.",
        b"h\x05.",
        b"q\x00.",
        b"Ns.",
        b"}(Nu.",
        b"R.",
        b"b.",
        b"\x81.",
        b"Q.",
        b"\x93.",
        b"NN\x93.",
        b"NNNR.",
        b"Na.",
    ],
)
def test_stacks_that_do_not_fit(archive, data):
    refused(archive(PROTO + data), "Weights only load failed")


def test_a_pickle_that_ends_too_early(archive):
    refused(archive(b""), "ends too early", EOFError)
    refused(archive(PROTO + b"N"), "ends too early", EOFError)
    refused(archive(b"\x80\x09N."), "unsupported pickle protocol: 9")


class Slotted:
    __slots__ = ("x",)


class Plain:
    def __init__(self, x):
        self.x = x


class Stateful(Plain):
    def __setstate__(self, state):
        self.x = state["x"] * 10


class Colour(enum.Enum):
    RED = 1


class Scaled(tt.Tensor):
    pass


Pair = collections.namedtuple("Pair", "first second")


def values_of_allowed_classes():
    slotted = Slotted()
    slotted.x = 5
    scaled = tt.ones(2).as_subclass(Scaled)
    scaled.factor = 3
    return [slotted, Plain(5), Stateful(5), Colour.RED, Pair(1, tt.ones(1)), scaled]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_classes_that_the_user_allowed(protocol):
    file = io.BytesIO()
    tt.save(values_of_allowed_classes(), file, pickle_protocol=protocol)
    classes = [Slotted, Plain, Stateful, Colour, Pair, Scaled]
    names = [f"{each.__module__}.{each.__qualname__}" for each in classes]
    assert tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue())) == names
    for missing in classes:
        with tt.serialization.safe_globals([each for each in classes if each is not missing]):
            refused(file.getvalue(), rf"GLOBAL \S+{missing.__name__} was not an allowed global")
    with tt.serialization.safe_globals(classes):
        assert tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue())) == []
        slotted, plain, stateful, colour, pair, scaled = tt.load(io.BytesIO(file.getvalue()))
    assert slotted.x == plain.x == 5 and stateful.x == 50 and colour is Colour.RED
    assert type(pair) is Pair and pair.second.item() == 1
    assert type(scaled) is Scaled and scaled.factor == 3 and scaled.tolist() == [1, 1]


def test_a_class_under_another_name_and_entries_that_are_none(archive):
    data = archive(PROTO + name("old.place", "Plain") + b")\x81" + attributes(x=2) + b"b.")
    with tt.serialization.safe_globals([(Plain, "old.place.Plain")]):
        assert tt.serialization.get_safe_globals() == [(Plain, "old.place.Plain")]
        assert tt.load(io.BytesIO(data)).x == 2
    with pytest.raises(ValueError, match="Expected tuple of length 2"):
        tt.serialization.add_safe_globals([(Plain, "a", "b")])
    with pytest.raises(TypeError, match="Expected second item in tuple to be str"):
        tt.serialization.add_safe_globals([(Plain, 1)])


def test_what_was_allowed_before_a_block_stays_so():
    tt.serialization.add_safe_globals([Plain])
    try:
        with tt.serialization.safe_globals([Plain, Colour]):
            assert tt.serialization.get_safe_globals() == [Plain, Colour]
        assert tt.serialization.get_safe_globals() == [Plain]
    finally:
        tt.serialization.clear_safe_globals()
    assert tt.serialization.get_safe_globals() == []


def allowed(kind):
    return tt.serialization.safe_globals([(kind, "user.Kind")])


def test_states_change_no_object_that_others_share(archive):
    state = attributes(_value_=5, name=6)
    for kind, made in ((Colour, b"K\x01\x85R"), (type(tt.Tensor), b"0" + name("torch", "Tensor"))):
        with allowed(kind):
            refused(archive(PROTO + name("user", "Kind") + made + state + b"b."), "Can only build Tensor")
    assert Colour.RED.value == 1


def test_states_of_slots_are_those_of_the_class(archive):
    made = PROTO + name("user", "Kind") + b")\x81N"
    with allowed(Slotted):
        assert tt.load(io.BytesIO(archive(made + attributes(x=2) + b"\x86b."))).x == 2
        refused(archive(made + attributes(__class__=2) + b"\x86b."), "Slotted has no slot __class__")
        refused(archive(made[:-1] + attributes(x=2) + b"b."), "Slotted.* has no attributes")
    with allowed(Plain):
        refused(archive(made + attributes(__init__=2) + b"\x86b."), "Plain has no slot __init__")


def test_a_state_makes_no_setstate(archive):
    """Check that `load` does not call a `__setstate__` attribute."""
    planted = b"}" + text("__setstate__") + name("torch._utils", "_rebuild_parameter") + b"sb"
    with allowed(Plain):
        found = tt.load(
            io.BytesIO(archive(PROTO + name("user", "Kind") + b")\x81" + planted + attributes(x=1) + b"b."))
        )
        assert found.x == 1


def test_tensors_of_allowed_classes(archive):
    """Their class is allowed, not their insides; and none is made of sizes, without a storage."""
    call = tensor(0, [4], [1])[2:-1]
    call = call.replace(name("torch._utils", "_rebuild_tensor_v2"), b"", 1)[:-1]
    made = name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("torch._utils", "_rebuild_tensor_v2")
    made += name("user", "Kind") + call
    with allowed(Scaled):
        assert tt.load(io.BytesIO(archive(PROTO + made + attributes(x=1) + b"tR.", {"0": bytes(16)}))).x == 1
        for state in (attributes(_spec=1), b"N" + attributes(_data=1) + b"\x86", attributes(relu=1)):
            refused(
                archive(PROTO + made + state + b"tR.", {"0": bytes(16)}),
                "takes no attribute|has no slot|must be dict",
            )
            refused(
                archive(PROTO + made + b"NtR" + state + b"b.", {"0": bytes(16)}),
                "takes no attribute|has no slot|must be dict",
            )
        for code in (b"R", b"\x81"):
            refused(
                archive(PROTO + name("user", "Kind") + number(1 << 40) + b"\x85" + code + b"."),
                "is rebuilt by",
            )
    refused(archive(PROTO + made + b"NtR.", {"0": bytes(16)}), "GLOBAL user.Kind was not an allowed global")


def test_a_buffer_by_our_own_name_is_whole(archive):
    found = tt.load(
        io.BytesIO(archive(PROTO + of_type(name("triten.nn.modules.parameter", "Buffer")) + b"R."))
    )
    assert type(found) is tt.nn.Buffer and found.persistent is True and found.shape == (2,)


def test_an_allowed_function_makes_no_class_allowed(archive):
    made = name("somewhere", "make") + b")R" + attributes(x=1) + b"b."
    with tt.serialization.safe_globals([(lambda: Plain(1), "somewhere.make")]):
        refused(archive(PROTO + made), "Can only build Tensor")
        refused(archive(PROTO + name("somewhere", "make") + b")\x81."), "Can only create new object for")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("_rebuild_nested_tensor", "nested"),
    ],
)
def test_tensors_that_are_not_supported(archive, function, kind):
    data = archive(PROTO + name("torch._utils", function) + b"N\x85R.")
    refused(data, f"{kind} tensors are not supported; save `tensor.")
    with pytest.raises(pickle.UnpicklingError, match=f"{kind} tensors are not supported"):
        tt.load(io.BytesIO(data), weights_only=False)


def test_the_names_in_a_file_are_read_without_running_it(archive):
    composed = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."
    assert tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(archive(composed))) == ["os.system"]
    with pytest.raises(pickle.UnpicklingError, match="malformed"):
        tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(archive(b"\x80\x02X\xff")))
    with pytest.raises(ValueError, match="Expected input to be a checkpoint"):
        tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"none"))


def test_a_pickle_module_is_for_files_that_are_trusted():
    file = io.BytesIO()
    tt.save({"x": 1}, file)
    with pytest.raises(
        RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"
    ):
        tt.load(io.BytesIO(file.getvalue()), pickle_module=pickle, weights_only=True)
    for weights_only in (None, False):
        loaded = tt.load(io.BytesIO(file.getvalue()), pickle_module=pickle, weights_only=weights_only)
        assert loaded == {"x": 1}
    with pytest.warns(UserWarning, match="pickle_load_args only works if `weights_only=False`"):
        tt.load(io.BytesIO(file.getvalue()), encoding="ascii")
