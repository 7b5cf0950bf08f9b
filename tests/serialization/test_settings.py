"""Settings of `save` and `load`, and the registry of devices' names."""

import io
import mmap
import zipfile
from collections.abc import Iterator

import pytest

import triten as tt
from triten.serialization import locations, settings
from triten.serialization.settings import LoadEndianness
from triten.utils.serialization import config


def saved(value: object, **options: object) -> bytes:
    file = io.BytesIO()
    tt.save(value, file, **options)
    return file.getvalue()


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(locations, "_packages", list(locations._packages))
    yield


@pytest.mark.parametrize("is_zip", [True, False])
def test_registered_functions_tag_and_restore_storages(packages: None, is_zip: bool) -> None:
    asked = []

    def restore(storage: tt.UntypedStorage, location: str) -> tt.UntypedStorage | None:
        asked.append(location)
        return storage if location == "npu:1" else None

    tt.serialization.register_package(15, lambda storage: None, lambda storage, location: None)
    tt.serialization.register_package(5, lambda storage: "npu:1" if storage.nbytes() == 8 else None, restore)
    assert tt.serialization.location_tag(tt.ones(2).untyped_storage()) == "npu:1"
    assert tt.serialization.location_tag(tt.ones(3).untyped_storage()) == "cpu"
    assert tt.serialization.location_tag(tt.ones(3, device="meta").untyped_storage()) == "meta"
    data = saved([tt.ones(2), tt.ones(3)], _use_new_zipfile_serialization=is_zip)
    loaded = tt.load(io.BytesIO(data))
    assert [each.tolist() for each in loaded] == [[1.0, 1.0], [1.0, 1.0, 1.0]]
    assert asked == ["npu:1", "cpu"]
    # The mapping's locations are looked up in the same registry.
    assert tt.load(io.BytesIO(data), map_location={"npu:1": "meta"})[0].device.type == "meta"


def test_a_deserializer_must_return_a_storage(packages: None) -> None:
    tt.serialization.register_package(5, lambda storage: None, lambda storage, location: 3)
    with pytest.raises(TypeError, match="must return a storage or None, not int"):
        tt.load(io.BytesIO(saved(tt.ones(2))))


def test_an_unknown_location_is_refused() -> None:
    storage = tt.ones(2).untyped_storage()
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        tt.serialization.default_restore_location(storage, "npu")
    assert tt.serialization.default_restore_location(storage, "cpu") is storage


def test_storages_without_data(tmp_path) -> None:
    with tt.serialization.skip_data():
        empty = saved({"a": tt.ones(3)})
    assert tt.load(io.BytesIO(empty))["a"].tolist() == [0.0] * 3
    full = saved({"a": tt.ones(3)})
    assert len(full) == len(empty)
    with tt.serialization.skip_data():
        loaded = tt.load(io.BytesIO(full))["a"]
    assert loaded.shape == (3,) and loaded.dtype is tt.float32
    assert tt.load(io.BytesIO(saved(tt.ones(3)))).tolist() == [1.0] * 3
    with pytest.raises(NotImplementedError, match="materialize_fake_tensors"):
        tt.serialization.skip_data(materialize_fake_tensors=True)


def test_checksums_can_be_left_out() -> None:
    assert tt.serialization.get_crc32_options() is True
    try:
        tt.serialization.set_crc32_options(False)
        data = saved(tt.ones(3))
    finally:
        tt.serialization.set_crc32_options(True)
    checksums = lambda file: {each.CRC for each in zipfile.ZipFile(io.BytesIO(file)).infolist()}  # noqa: E731
    assert checksums(data) == {0} and 0 not in checksums(saved(tt.ones(3)))
    assert tt.load(io.BytesIO(data)).tolist() == [1.0] * 3


@pytest.mark.parametrize("flags", [mmap.MAP_PRIVATE, mmap.MAP_SHARED])
def test_writes_to_a_mapped_file(tmp_path, flags: int) -> None:
    path = tmp_path / "file.pt"
    tt.save(tt.arange(3.0), path)
    with tt.serialization.set_default_mmap_options(flags), config.patch("load.mmap", True):
        tensor = tt.load(path)
        tensor[0] = 7
    assert tt.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE and config.load.mmap is False
    first = 7.0 if flags == mmap.MAP_SHARED else 0.0
    assert tt.load(path, mmap=True)[0].item() == first
    with pytest.raises(ValueError, match="but got 77"):
        tt.serialization.set_default_mmap_options(77)


def test_byte_order_of_files_that_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(tt.ones(2), _disable_byteorder_record=True)
    assert tt.serialization.get_default_load_endianness() is None
    for order in (LoadEndianness.LITTLE, LoadEndianness.NATIVE, None):
        tt.serialization.set_default_load_endianness(order)
        assert tt.load(io.BytesIO(data)).tolist() == [1.0, 1.0]
    monkeypatch.setattr(settings.load, "endianness", LoadEndianness.BIG)
    with pytest.raises(RuntimeError, match="default load endianness is big"):
        tt.load(io.BytesIO(data))
    with pytest.raises(TypeError, match="expected a LoadEndianness or None, got str"):
        tt.serialization.set_default_load_endianness("big")


def test_records_are_aligned_as_the_settings_say() -> None:
    with config.patch({"save.storage_alignment": 4096}):
        data = saved(tt.arange(4))
    place = data.index(tt.arange(4).numpy().tobytes())
    assert place % 4096 == 0
