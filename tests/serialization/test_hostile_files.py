"""Files with random changes, from a fixed seed: whatever comes of one, it is a documented error or an object.

Bytes are changed, taken out, put in and repeated, opcodes and globals that matter are put in, in archives' pickles, in
archives themselves and in files of the older format. The files are small and so is what they may cost.
"""

import io
import pickle
import random
import tracemalloc
import zipfile
from collections import Counter

import pytest

import triten as tt
from triten.tests.shared.plain_values import plain_values

pytestmark = pytest.mark.usefixtures("unchanged")
DOCUMENTED = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError)
ROUNDS = 400
PEAK = 50_000_000
OPCODES = (
    b"(.0123NRbedsutqhjrKMJGXUTB\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96"
    b"\x80\x81}])Q"
)
GLOBALS = [
    *("torch Tensor", "torch float32", "torch FloatStorage", "torch Size", "torch device", "torch Generator"),
    *(
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_tensor_v3",
        "torch._utils _rebuild_parameter",
    ),
    *("torch._utils _rebuild_parameter_with_state", "torch._tensor _rebuild_from_type_v2"),
    *(
        "triten.dispatch.methods.pickling _rebuilt",
        "triten.nn Module",
        "triten.perf.report page",
        "os system",
    ),
    *(
        "collections OrderedDict",
        "collections Counter",
        "builtins set",
        "builtins eval",
        "copyreg _reconstructor",
    ),
]


def values():
    x = tt.arange(6.0).reshape(2, 3)
    plain = plain_values()
    return [
        {"x": x, "turned": x.t(), "plain": plain},
        tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.BatchNorm1d(2)).state_dict(),
        [tt.nn.Parameter(x), tt.nn.Buffer(x), tt.ones(2, dtype=tt.uint16), tt.ones(1, device="meta")],
        [tt.strided, tt.device("cuda:1"), tt.Size([1]), tt.float16, x.to(tt.complex64), x.untyped_storage()],
    ]


def saved(value, protocol):
    file = io.BytesIO()
    tt.save(value, file, pickle_protocol=protocol)
    return file.getvalue()


def old_format(value):
    """Return the pickle of a value without storages, in the older format."""
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    return b"".join(pickle.dumps(each, 2) for each in [*head, value, []])


def changed(data, draw):
    made = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at, other = draw.randrange(len(made) + 1), draw.randrange(len(made) + 1)
        match draw.randrange(7):
            case 0:
                made[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                made[at:at] = bytes([draw.choice(OPCODES)])
            case 2:
                made[at:at] = b"c" + draw.choice(GLOBALS).replace(" ", "\n").encode() + b"\n"
            case 3:
                del made[at : at + draw.randint(1, 8)]
            case 4:
                made[at:at] = made[other : other + draw.randint(1, 40)]
            case 5:
                made[at : at + 1] = bytes([draw.choice(OPCODES)])
            case 6:
                made[at : at + 4] = made[other : other + 4]
    return bytes(made)


def repacked(data, draw):
    """Return an archive with a changed pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            record = old.read(name)
            new.writestr(name, changed(record, draw) if name.endswith("data.pkl") else record)
    return file.getvalue()


def attempt(data):
    try:
        tt.load(io.BytesIO(data))
    except DOCUMENTED as error:
        return type(error)
    return None


@pytest.mark.parametrize("target", ["pickles", "archives", "older files"])
@pytest.mark.parametrize("seed", [0, 1])
def test_changed_files(target, seed):
    draw = random.Random(seed)
    if target == "older files":
        files = [old_format({"n": [1, 2.5, "text", (1, 2), {3}], "m": Counter("aab")})]
    else:
        files = [saved(value, protocol) for value in values() for protocol in (2, 4)]
    change = repacked if target == "pickles" else changed
    tracemalloc.start()
    try:
        outcomes = Counter(attempt(change(draw.choice(files), draw)) for _ in range(ROUNDS))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < PEAK
    # Some changes do no harm, most of them do.
    assert outcomes[None] and outcomes[pickle.UnpicklingError] + outcomes[RuntimeError] > ROUNDS // 2


@pytest.mark.parametrize("seed", range(3))
def test_random_opcodes(archive, seed):
    draw = random.Random(seed)
    for _ in range(ROUNDS):
        body = bytes(draw.choice(OPCODES + b"\x00\x01\x05") for _ in range(draw.randint(1, 60)))
        attempt(archive(b"\x80\x02" + body + b"."))
