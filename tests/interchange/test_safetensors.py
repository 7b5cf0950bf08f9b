"""Files of the safetensors format, beside those of the package itself, and files that nobody should trust."""

import json
import os
import struct

import numpy as np
import pytest

import triten as tt

reference = pytest.importorskip("safetensors")
numpys = pytest.importorskip("safetensors.numpy")

from triten.safetensors import (  # noqa: E402
    SafetensorError,
    load,
    load_file,
    load_model,
    safe_open,
    save,
    save_file,
    save_model,
)
from triten.safetensors.dtypes import DTYPES  # noqa: E402


def samples():
    """Return a tensor of each dtype with varied bytes."""
    raw = tt.arange(64, dtype=tt.uint8).view(4, 16) % 2
    return {
        name: raw.view(dtype) + 0 if dtype is tt.uint8 else raw.clone().view(dtype)
        for name, dtype in DTYPES.items()
    }


def written(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_every_dtype_comes_back(path, device):
    tensors = {name: each.to(device) for name, each in samples().items()}
    tensors |= {"none": tt.empty(0, 3, device=device), "number": tt.tensor(3.0, device=device)}
    save_file(tensors, path, {"key": "text"})
    for found in (
        load_file(path),
        load(path.read_bytes()),
        load(save(tensors)),
        load_file(path, backend="pread"),
    ):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
            assert found[name].host_array().tobytes() == tensor.cpu().host_array().tobytes(), name
    there = load_file(path, device=device)
    assert there["number"].device.type == device and there["number"].item() == 3


def test_files_are_those_of_the_package(path):
    arrays = {
        "b": np.arange(6, dtype=np.int16).reshape(2, 3),
        "a": np.ones(3),
        "c": np.zeros((0, 2), np.float32),
    }
    numpys.save_file(arrays, path, {"format": "pt"})
    before = path.read_bytes()
    found = load_file(path)
    assert all((found[name].numpy() == arrays[name]).all() for name in arrays)
    save_file(found, path, {"format": "pt"})
    assert path.read_bytes() == before == save(found, {"format": "pt"})
    assert {name: each.tolist() for name, each in numpys.load_file(path).items()} == {
        name: each.tolist() for name, each in arrays.items()
    }


def test_what_a_file_tells(path):
    save_file({"w": tt.ones(3, 2), "big": tt.zeros(4, dtype=tt.float64)}, path, {"a": "b"})
    with safe_open(path, framework="pt", device="cpu") as file:
        assert file.keys() == ["big", "w"] == file.offset_keys() and file.metadata() == {"a": "b"}
        part = file.get_slice("w")
        assert part.get_shape() == [3, 2] and part.get_dtype() == "F32"
        assert part[1].shape == (2,) and part[:, 1:].shape == (3, 1) and part[..., 0].tolist() == [1.0] * 3
        kept = file.get_tensor("w")
        for ask in (file.get_tensor, file.get_slice):
            with pytest.raises(SafetensorError, match="does not contain tensor v"):
                ask("v")
    for ask in (file.keys, lambda: file.get_tensor("w"), lambda: part[0], file.metadata):
        with pytest.raises(SafetensorError, match="closed"):
            ask()
    assert kept.sum() == 6
    for wrong in ({"framework": "tf"}, {"backend": "tape"}):
        with pytest.raises(ValueError, match="expected the"):
            safe_open(path, **wrong)


def test_tensors_are_the_file_and_writes_stay_in_memory(path):
    save_file({"w": tt.zeros(1 << 20), "v": tt.ones(4)}, path)
    with safe_open(path) as file:
        w, again, v = file.get_tensor("w"), file.get_tensor("w"), file.get_tensor("v")
        assert w.data_ptr() == again.data_ptr() and file.get_slice("w")[5:].data_ptr() == w.data_ptr() + 20
        assert safe_open(path, backend="pread").get_tensor("w").data_ptr() != w.data_ptr()
    w[3] = 7
    assert again[3] == 7 and load_file(path)["w"][3] == 0
    assert w.untyped_storage().nbytes() == w.nbytes and v.untyped_storage() is not w.untyped_storage()
    save_file({"w": w}, path)
    assert w[3] == 7 and load_file(path)["w"][3] == 7, (
        "tensors that are mapped to a file outlive its replacement"
    )


def test_a_large_file_is_not_read_before_it_is_needed(path):
    size = 1 << 30
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)  # sparse: it takes no room
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with safe_open(path) as opened:
        w = opened.get_tensor("w")
        part = opened.get_slice("w")[-1024:]
    assert part.sum() == 0 and w.numel() == size // 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kibibytes"


def test_elements_that_lie_between_addresses_are_copied(path):
    written(path, {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, struct.pack("<2f", 1, 2))
    with open(path, "rb") as file:
        assert int.from_bytes(file.read(8), "little") % 4, "the header does not end at a multiple of 4"
    found = load_file(path)["a"]
    assert found.tolist() == [1.0, 2.0] and found.data_ptr() % 4 == 0


def row(**changes):
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("header", "length"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b"{}" + b" " * 6, 100_000_001),
        (b"{}", 2**63),
        (b"{}", 2**64 - 1),
        (row(dtype="F99"), None),
        (row(shape=[3]), None),
        (row(shape=[-2]), None),
        (row(shape=[2**62, 4]), None),
        (row(data_offsets=[0, 4]), None),
        (row(data_offsets=[4, 12]), None),
        (row(data_offsets=[8, 0]), None),
        (row(data_offsets=[0, 2**64]), None),
        ({**row(), "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, None),
        ({**row(), "b": {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}}, None),
        ({**row(), "__metadata__": {"a": 1}}, None),
    ],
)
def test_hostile_headers_are_refused(path, header, length):
    written(path, header, bytes(8), length)
    for read in (lambda: safe_open(path), lambda: load_file(path), lambda: load(path.read_bytes())):
        with pytest.raises(SafetensorError):
            read()


@pytest.mark.parametrize("shape", [[2**61, 0], [0] * 65], ids=["large", "many"])
def test_sizes_beside_a_zero_are_checked(path, shape):
    written(path, row(shape=shape, data_offsets=[0, 0]), b"")
    for read in (lambda: load_file(path), lambda: load(path.read_bytes())):
        with pytest.raises(SafetensorError, match="at most 64 sizes whose product fits 64 bits"):
            read()


def test_half_of_a_file_is_refused(path):
    save_file({"w": tt.ones(16), "v": tt.zeros(3)}, path, {"a": "b"})
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(SafetensorError):
            load_file(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(SafetensorError):
        load_file(path)
    with pytest.raises(FileNotFoundError):
        load_file(path.with_name("none"))


def test_a_file_that_changed_since_its_header_was_read(path, monkeypatch):
    save_file({"w": tt.ones(16)}, path)
    original = reference.safe_open

    def changing(*args, **kwargs):
        opened = original(*args, **kwargs)
        with open(path, "ab") as file:
            file.write(bytes(8))
        return opened

    monkeypatch.setattr(reference, "safe_open", changing)
    with pytest.raises(SafetensorError, match="has changed"):
        safe_open(path)


def test_dtypes_without_a_counterpart(path):
    written(path, {"a": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}}, bytes(3))
    with safe_open(path) as file:
        assert file.get_slice("a").get_dtype() == "F6_E2M3"
        with pytest.raises(TypeError, match="no dtype is F6_E2M3"):
            file.get_tensor("a")
    written(path, {"a": {"dtype": "F4", "shape": [2, 1], "data_offsets": [0, 1]}}, bytes(1))
    with pytest.raises(TypeError, match="even last size"):
        load_file(path)


@pytest.mark.parametrize(
    ("tensors", "error", "message"),
    [
        ([tt.ones(2)], ValueError, "Expected a dict"),
        ({"a": 5}, ValueError, "Key `a` is invalid"),
        ({"a": tt.ones(2, 2).t()}, ValueError, "non contiguous tensor: `a`"),
        ({"a": tt.ones(2, dtype=tt.complex128)}, ValueError, "no tensors of triten.complex128"),
        ({"a": tt.ones(2, device="meta")}, ValueError, "on meta"),
        (dict.fromkeys("ab", tt.ones(2)), RuntimeError, "share memory"),
    ],
)
def test_what_is_not_saved(tensors, error, message, path):
    path.write_bytes(b"old")
    for write in (lambda: save_file(tensors, path), lambda: save(tensors)):
        with pytest.raises(error, match=message):
            write()
    with pytest.raises(ValueError, match="sparse tensors"):
        save({"a": tt.eye(2).to_sparse()})
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


def test_parts_of_one_memory_that_do_not_overlap_are_saved(path):
    whole = tt.arange(6.0)
    save_file({"a": whole[:3], "b": whole[3:]}, path)
    assert load_file(path)["b"].tolist() == [3.0, 4.0, 5.0]


def tied():
    model = tt.nn.Sequential(tt.nn.Linear(3, 3), tt.nn.Linear(3, 3), tt.nn.BatchNorm1d(3))
    model[1].weight = model[0].weight
    return model


def test_models_whose_parameters_share_memory(path):
    model, other = tied(), tied()
    with pytest.raises(RuntimeError, match="share memory"):
        save_file(dict(model.state_dict()), path)
    save_model(model, path, {"a": "b"})
    with safe_open(path) as file:
        assert file.metadata() == {"a": "b", "1.weight": "0.weight"} and file.get_slice("0.weight")
    assert load_model(other, path) == (set(), [])
    assert all(
        (a == b).all() for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    )
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*3.weight"):
        load_model(tt.nn.Sequential(*tied(), tt.nn.Linear(3, 3)), path)
    missing, unexpected = load_model(tt.nn.Sequential(tt.nn.Linear(3, 3)), path, strict=False)
    assert missing == set() and "2.running_mean" in unexpected
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\)"):
        load_model(tt.nn.Sequential(tt.nn.Linear(3, 3)), path)


def test_export_reads_what_this_writes_and_the_other_way_round(path):
    from triten.compiler.export import safetensors as exported

    tensors = {name: each for name, each in samples().items() if name in exported.DTYPES}
    found = load(exported.dumps(tensors))
    back = exported.loads(save(tensors))
    for name, tensor in tensors.items():
        assert (
            found[name].host_array().tobytes()
            == back[name].host_array().tobytes()
            == tensor.host_array().tobytes()
        )
