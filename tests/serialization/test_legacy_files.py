"""Files as PyTorch wrote them before 1.6, and writes them with `_use_new_zipfile_serialization=False`."""

import base64
import io
import pickle
import struct
import zlib

import pytest

import triten as tt

TENSORS = zlib.decompress(
    base64.b64decode(
        "eNp1kktv00AQx/1KAoaW8qY8yzvlERLHdZRTK0C9rHiZiy/Icp0lduV6M+t1eUiRcmlI+QwcOPLV+AhIHJi109KIsPKONLOz"
        "85v5e0faVzP5/W3z18r2j9fLjZH24qeOdghK3VtSFGXAmWAhS/xdyrOYpaBigreAJ0ksREJ9mvbiIAVt4pkYFJ8G1M/izzQD"
        "fQhG3atgMIsYF1AhmqejF6cCqsTwDFmDpX2oESPPD5gyuhVkFNRQMB5GDT8XcZKZPqdbeZz0fEHTjHF/1zJBq9e9mqyPmUGf"
        "gl5eMTcTFoi3ZdAEw1vEnK7ddjqtltVtOpZlQ6VoJRzk2Er1pYDaG6IQjehjOEZ0oo7h+H6IUyc0FDh0Zr7iPcpp73kcChPM"
        "VRdOCDjpwoJXlUPnPKU9WIywoUiP5gJPRSVoSYJ0oo3hNFEl78x+JOudFXDOhfNFvQ807kcCLvxHgUHAgx0qKDfh4r/IptVp"
        "tpvOmgOXEKkhcrmYbQ8uE3UPrpS4qwKuuXB9Ujg3vsCKCzcL7UOWbsOtsuxUzmdsZ5DQj7Oq3j5KdLrdVse24Q4SVSTelUSE"
        "3ZPmfkmsD2H1L+HBJBPw0IVHRSgKkvfweAb6tMC1nENgY1ZVq2PjiE+mwOYU2JLGKoFtAbYLa/JlvZMva06/6jzZtHm/T59H"
        "N2hDVQ7WaB3Nhjbjj9arytFV5uCHe4T7+4Z6ePIHJovm5w=="
    )
)
"""``{"base": x, "turned": x.t(), "weight": Parameter(ones(2)), "conj": tensor([1 + 2j]).conj(), "half": ones(1)}``,
where x is ``arange(6.0).reshape(2, 3)`` and the last is bfloat16; by PyTorch 2.13."""
STORAGE = zlib.decompress(
    base64.b64decode(
        "eNprYOriyvkzx+2nQtaKAEm9Bibfl8xAsraQQSNCgIGBoaAovyQ/OT8nviy1qDgzP6+QEaggghcok5NZUpKTGp+al5KZmFfI"
        "1BHBBRQsqSxIjS/OrEotLmSuLWTRiGAFChZn5BeVFLJ6M0UwA3mZeSWFbN4sESwgM/Lz0gvZvVlKS4F2akSwgxSX5BclpqcW"
        "MiQDGckZelA+V2geyOyUYCi3kDGCD6ja0sTYzNzQ0MjSwMzIyKQQYkNyQWkhs7eEX0khSyDQ3NhCBmxqGRP1JBiQQYM9kHAA"
        "IiBuAOIFDgAuI0ow"
    )
)
"""The untyped storage of x."""
HEAD = [
    0x1950A86A20F9469CFC6C,
    1001,
    {"little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}},
]


def check(found):
    assert list(found) == ["base", "turned", "weight", "conj", "half"]
    assert found["base"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["turned"].stride() == (1, 3)
    assert type(found["weight"]) is tt.nn.Parameter and found["weight"].tolist() == [1, 1]
    assert found["conj"].tolist() == [1 - 2j]
    assert found["half"].dtype is tt.bfloat16 and found["half"].item() == 1
    found["base"][0, 1] = 7
    assert found["turned"].tolist() == [[0, 3], [7, 4], [2, 5]]


@pytest.mark.parametrize("weights_only", [True, False])
def test_values_and_shared_memory(weights_only):
    check(tt.load(io.BytesIO(TENSORS), weights_only=weights_only))


def test_a_file_on_the_disk(tmp_path):
    path = tmp_path / "old.pt"
    path.write_bytes(TENSORS)
    check(tt.load(path))


def test_a_storage():
    found = tt.load(io.BytesIO(STORAGE))
    assert isinstance(found, tt.UntypedStorage) and found.nbytes() == 24


@pytest.mark.parametrize(
    ("location", "device"),
    [
        ("cuda:1", "cuda:1"),
        ("meta", "meta"),
        ({"cpu": "cuda:0"}, "cuda:0"),
        (lambda storage, location: storage, "cpu"),
    ],
)
def test_where_tensors_go(location, device):
    if device.startswith("cuda"):
        pytest.importorskip("triton", reason="triton has no wheel for this platform")
    found = tt.load(io.BytesIO(TENSORS), map_location=location)
    assert {str(tensor.device) for tensor in found.values()} == {device}
    if device != "meta":
        check(found)


@pytest.mark.parametrize("end", range(0, len(TENSORS), 37))
def test_files_that_end_too_early(end):
    with pytest.raises((pickle.UnpicklingError, RuntimeError, EOFError)):
        tt.load(io.BytesIO(TENSORS[:end]))


def file_of(count, keys=("0",), data=b"", head=HEAD):
    parts = [pickle.dumps(each, 2) for each in head]
    text = lambda value: b"X" + struct.pack("<I", len(value)) + value.encode()  # noqa: E731
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    storage += b"\x8a\x08" + struct.pack("<q", count) + b"NtQ"
    parts += [b"\x80\x02" + storage + b".", pickle.dumps(list(keys), 2), data]
    return b"".join(parts)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (file_of(1 << 60), "too small for a storage of 1152921504606846976 elements"),
        (file_of(40), "the file ends within a storage"),
        (
            file_of(2, data=struct.pack("<q", 1 << 60) + bytes(8)),
            "wrong byte size: expected 8 got 4611686018427387904",
        ),
        (file_of(2, keys=()), "list of storages is not that of its object"),
        (file_of(2, keys=("0", "1")), "list of storages is not that of its object"),
        (file_of(2, keys=("0", "0")), "two storages of the same key"),
        (file_of(2, keys=(0,)), "list of storages is not that of its object"),
        (file_of(2, head=[1, *HEAD[1:]]), "Invalid magic number; corrupt file"),
        (file_of(2, head=[HEAD[0], 1000, HEAD[2]]), "Invalid protocol version: 1000"),
        (file_of(2, head=[*HEAD[:2], {"little_endian": False}]), "big-endian"),
    ],
)
def test_damaged_files(data, message):
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=message):
        tt.load(io.BytesIO(data))


def test_the_same_rules_hold_for_its_globals():
    for place in range(4):
        parts = [pickle.dumps(each, 2) for each in HEAD]
        parts[place:] = [b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R."]
        with pytest.raises(pickle.UnpicklingError, match="GLOBAL eval was not an allowed global by default"):
            tt.load(io.BytesIO(b"".join(parts)))


def legacy(value, **options):
    file = io.BytesIO()
    tt.save(value, file, _use_new_zipfile_serialization=False, **options)
    return file.getvalue()


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("weights_only", [True, False])
def test_written_files(weights_only, protocol):
    x = tt.arange(6.0).reshape(2, 3)
    weight = tt.nn.Parameter(tt.ones(2))
    half, conj = tt.ones(1, dtype=tt.bfloat16), tt.tensor([1 + 2j]).conj()
    data = legacy(
        {"base": x, "turned": x.t(), "weight": weight, "conj": conj, "half": half}, pickle_protocol=protocol
    )
    check(tt.load(io.BytesIO(data), weights_only=weights_only))


def test_written_layout():
    x = tt.tensor([1.5, 2.5])
    data = legacy([x, x.to(tt.uint16), x.untyped_storage()[:4]])
    file = io.BytesIO(data)
    assert [pickle.load(file) for _ in range(2)] == HEAD[:2]
    assert pickle.load(file) == {"protocol_version": 1001, **HEAD[2]}
    assert b"FloatStorage" in data and b"UntypedStorage" in data
    # Behind the keys of the storages: for each the number of elements, and their bytes.
    tail = struct.pack("<q2f", 2, 1.5, 2.5) + struct.pack("<q2H", 4, 1, 2) + struct.pack("<qf", 4, 1.5)
    assert data.endswith(pickle.dumps(["0", "1", "2"], 2) + tail)


@pytest.mark.parametrize(
    "value",
    [
        tt.eye(2).to_sparse(),
        tt.eye(2).to_sparse_csr(),
        tt.quantize_per_tensor(tt.ones(3), 0.5, 1, tt.qint8),
        tt.ones(2, dtype=tt.uint16),
        tt.empty(0),
        tt.tensor(3, dtype=tt.int8),
        tt.ones(2, requires_grad=True),
    ],
    ids=str,
)
def test_written_tensors(value):
    found = tt.load(io.BytesIO(legacy(value)))
    assert (found.dtype, found.shape, found.layout) == (value.dtype, value.shape, value.layout)
    assert found.requires_grad == value.requires_grad
    dense = [each.dequantize() if each.is_quantized else each.to_dense() for each in (found, value)]
    assert dense[0].tolist() == dense[1].tolist()


def test_a_meta_tensor_needs_no_bytes():
    found = tt.load(io.BytesIO(legacy(tt.empty(3, device="meta"))))
    assert found.is_meta and found.shape == (3,)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(("encoding", "text"), [("utf-8", "\u017cz"), ("bytes", b"\xc5\xbcz")])
def test_strings_of_python_2(weights_only, encoding, text):
    """Strings of Python 2 have no encoding of their own, the keys and places of storages included."""

    def short(value):
        return b"U" + bytes([len(value)]) + value

    head = pickle.dumps(HEAD[0], 2) + pickle.dumps(HEAD[1], 2)
    head += b"\x80\x02}" + short(b"little_endian") + b"\x88s."
    storage = (
        b"(" + short(b"storage") + b"ctorch\nFloatStorage\n" + short(b"77") + short(b"cpu") + b"K\x02NtQ"
    )
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00K\x02\x85K\x01\x85\x89NtR"
    body = b"\x80\x02](" + short(b"\xc5\xbcz") + tensor + b"e."
    keys = b"\x80\x02](" + short(b"77") + b"e."
    data = head + body + keys + struct.pack("<q2f", 2, 1.5, -2.0)
    found = tt.load(io.BytesIO(data), weights_only=weights_only, encoding=encoding)
    assert found[0] == text and found[1].tolist() == [1.5, -2.0]


def storage_views(*views, data=(1.5, -2.0, 4.0)):
    """Return a file of before PyTorch 0.4: a list of views (key, offset, size) of one FloatStorage."""

    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def number(value):
        return b"J" + struct.pack("<i", value)

    storages = b"".join(
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("7") + text("cpu") + number(len(data))
        + text(key) + number(offset) + number(size) + b"\x87tQ"
        for key, offset, size in views
    )  # fmt: skip
    body = b"\x80\x02](" + storages + b"e."
    parts = [*(pickle.dumps(each, 2) for each in HEAD), body, pickle.dumps(["7"], 2)]
    return b"".join(parts) + struct.pack(f"<q{len(data)}f", len(data), *data)


@pytest.mark.parametrize("weights_only", [True, False])
def test_views_of_storages(weights_only):
    data = storage_views(("a", 0, 1), ("b", 1, 2), ("a", 0, 1))
    first, second, again = tt.load(io.BytesIO(data), weights_only=weights_only)
    assert first.tolist() == [1.5] and second.tolist() == [-2.0, 4.0]
    assert first.data_ptr() + 4 == second.data_ptr() and again.data_ptr() == first.data_ptr()
    sizes = [each.nbytes() for each in tt.load(io.BytesIO(data), map_location="meta")]
    assert sizes == [4, 8, 4]


@pytest.mark.parametrize("view", [("a", -1, 1), ("a", 2, 2), ("a", 3, -1), ("a" * 1000, 0, 1)])
def test_views_outside_of_their_storage(view):
    with pytest.raises(pickle.UnpicklingError, match="a view of"):
        tt.load(io.BytesIO(storage_views(view)))
