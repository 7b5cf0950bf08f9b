"""Single records of files, by `PyTorchFileReader`."""

import io

import pytest

import triten as tt


def written(path):
    tt.save({"a": tt.arange(3.0), "b": tt.ones(2, dtype=tt.bfloat16)}, path)
    return path


def test_records_are_those_of_the_file(tmp_path):
    path = written(tmp_path / "file.pt")
    reader = tt.PyTorchFileReader(str(path))
    assert {"data.pkl", "data/0", "data/1", "version"} <= set(reader.get_all_records())
    assert reader.has_record("data/0") and not reader.has_record("data/7")
    assert (reader.get_record_size("data/0"), len(reader.get_record("data/0"))) == (12, 12)
    offset = reader.get_record_offset("data/0")
    assert path.read_bytes()[offset : offset + 12] == reader.get_record("data/0")
    assert isinstance(reader.serialization_id(), str)


def test_storages_are_read(tmp_path):
    reader = tt.PyTorchFileReader(io.BytesIO(written(tmp_path / "file.pt").read_bytes()))
    floats = reader.get_storage_from_record("data/0", 3, tt.float32)
    assert floats.dtype is tt.float32 and floats.shape == (0,)
    again = tt.empty(0).set_(floats.untyped_storage(), 0, (3,), (1,))
    assert again.tolist() == [0.0, 1.0, 2.0]
    narrow = reader.get_storage_from_record("data/1", 2, tt.bfloat16)
    assert tt.empty(0, dtype=tt.bfloat16).set_(narrow.untyped_storage(), 0, (2,), (1,)).tolist() == [1.0, 1.0]
    assert reader.get_storage_from_record("data/0", 12, tt.UntypedStorage).untyped_storage().nbytes() == 12


def test_what_is_refused(tmp_path):
    reader = tt.PyTorchFileReader(written(tmp_path / "file.pt"))
    with pytest.raises(RuntimeError, match="no record 'data/7'"):
        reader.get_record("data/7")
    with pytest.raises(RuntimeError, match=r"has 12 bytes, expected 4 elements of triten.float32, 16 bytes"):
        reader.get_storage_from_record("data/0", 4, tt.float32)
    with pytest.raises(RuntimeError, match=r"none\.pt': No such file"):
        tt.PyTorchFileReader(tmp_path / "none.pt")
    with pytest.raises(RuntimeError, match="failed reading zip archive"):
        tt.PyTorchFileReader(io.BytesIO(b"PK not an archive"))
