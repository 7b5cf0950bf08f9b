"""Archives that are damaged or made to deceive, and what PyTorch's own have beside the records that are read."""

import io
import re
import struct
import tracemalloc
import zipfile

import pytest

import triten as tt

pytestmark = pytest.mark.usefixtures("unchanged")


def saved(value):
    file = io.BytesIO()
    tt.save(value, file)
    return file.getvalue()


def refused(data, message, error=RuntimeError):
    with pytest.raises(error, match=message):
        tt.load(io.BytesIO(data))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_records_are_refused_before_they_are_inflated(archive, method):
    data = archive(b"\x80\x02N.", {"0": bytes(5_000_000)}, method)
    tracemalloc.start()
    refused(data, r"record 'archive/data\.pkl' is compressed; torch\.save stores records as they are")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_record_that_claims_another_size(archive):
    data = archive(b"\x80\x02N.", {"0": bytes(1000)})
    directory = data.rindex(b"PK\x01\x02", 0, data.rindex(b"archive/data/0"))
    for size in (1001, 1 << 31, 2**32 - 2):
        claimed = bytearray(data)
        claimed[directory + 20 : directory + 28] = struct.pack("<II", size, size)
        refused(bytes(claimed), "overlaps another one or the archive's directory")
    claimed[directory + 20 : directory + 28] = struct.pack("<II", 1000, 1001)
    refused(bytes(claimed), "is compressed")


def test_records_that_share_bytes(archive):
    """Check records whose headers overlap the previous record, which make a small file a large archive."""
    inner = archive(b"\x80\x02N.", {"0": bytes(1000)})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/outer", inner)
        outer = made.infolist()[0]
        with zipfile.ZipFile(io.BytesIO(inner)) as opened:
            for entry in opened.infolist():
                entry.header_offset += outer.header_offset + 30 + len(outer.filename)
                made.filelist.append(entry)
        made._didModify = True
    refused(file.getvalue(), r"record 'archive/data\.pkl' overlaps another one")


def test_a_record_under_another_name(archive):
    data = bytearray(archive(b"\x80\x02N.", {"0": bytes(10)}))
    at = data.rindex(b"archive/data/0")
    data[at : at + 14] = b"archive/data/1"
    refused(bytes(data), "name does not agree with the directory")


def test_names_that_occur_twice(archive):
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = archive(b"\x80\x02N.", others=[("archive/data.pkl", b"\x80\x02K\x01.")])
    refused(data, "two records of the same name")


@pytest.mark.parametrize(
    "name", ["other/data.pkl", "data.pkl", "../archive/data/0", "/archive/data/0", "archive"]
)
def test_records_outside_of_the_folder(archive, name):
    data = archive(b"\x80\x02N.", others=[(name, b"")])
    refused(data, re.escape(f"file in archive is not in a subdirectory 'archive/': '{name}'"))


@pytest.mark.parametrize("at", [0.1, 0.3, 0.5, 0.8, 0.95, 0.99])
def test_files_that_end_too_early(at):
    data = saved({"x": tt.arange(100.0)})
    refused(data[: int(len(data) * at)], "failed reading zip archive")


def test_bytes_that_changed():
    data = bytearray(saved(tt.arange(4.0)))
    data[data.index(struct.pack("<f", 3.0))] ^= 1
    refused(bytes(data), "checksum of record 'data/0' does not agree")


def test_no_checksum_is_none_to_be_checked(archive):
    """Load a file without checksums, as PyTorch writes it after `set_crc32_options(False)`."""
    data = bytearray(archive(b"\x80\x02K\x07."))
    at = data.index(b"PK\x01\x02") + 16
    data[at : at + 4] = bytes(4)
    assert tt.load(io.BytesIO(bytes(data))) == 7


def test_encrypted_records(archive):
    data = bytearray(archive(b"\x80\x02K\x07."))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    refused(bytes(data), "does not agree with the directory")


def test_offsets_beyond_the_file(archive):
    data = bytearray(archive(b"\x80\x02K\x07."))
    at = data.index(b"PK\x01\x02") + 42
    for offset in (len(data) - 3, len(data) + 100, 2**31):
        data[at : at + 4] = struct.pack("<I", offset)
        refused(bytes(data), "failed reading zip archive")


@pytest.mark.parametrize(
    ("order", "message", "error"),
    [
        (b"big", "numbers are big-endian", RuntimeError),
        (b"none", "Unknown endianness type", ValueError),
        (b"little" * 1000, "Unknown endianness type", ValueError),
    ],
)
def test_orders_of_bytes(archive, order, message, error):
    refused(archive(b"\x80\x02N.", others=[("archive/byteorder", order)]), message, error)


def test_other_kinds_of_archives(archive):
    refused(
        archive(b"\x80\x02N.", others=[("archive/constants.pkl", b"")]),
        "a TorchScript archive is not supported",
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/x", b"")
    refused(file.getvalue(), r"no data\.pkl")
    refused(b"PK\x03\x04", "failed reading zip archive")
    refused(b"", "the file is empty", EOFError)
    refused(b"text", "a zip archive is expected")


def test_what_pytorch_writes_beside_is_no_hindrance(archive):
    others = [
        *(
            ("archive/.format_version", b"1"),
            ("archive/.storage_alignment", b"64"),
            ("archive/byteorder", b"little"),
        ),
        *(("archive/version", b"3\n"), ("archive/.data/serialization_id", b"0" * 40)),
    ]
    assert tt.load(io.BytesIO(archive(b"\x80\x02K\x05.", others=others))) == 5


def test_an_archive_behind_other_bytes():
    file = io.BytesIO(b"before" + saved([1, tt.ones(2)]))
    file.seek(6)
    found = tt.load(file)
    assert found[0] == 1 and found[1].tolist() == [1, 1]


class Source:
    """A file-like object that gives at most `step` bytes at once, by `read` or also by `readinto`."""

    def __init__(self, data, step, reads_into):
        self.file, self.step, self.calls = io.BytesIO(data), step, []
        self.seek, self.tell = self.file.seek, self.file.tell
        if reads_into:
            self.readinto = self.read_into

    def read(self, size=-1):
        self.calls.append("read")
        return self.file.read(size)

    def read_into(self, target):
        self.calls.append("readinto")
        return self.file.readinto(target[: self.step])


@pytest.mark.parametrize("reads_into", [True, False])
def test_storages_are_read_into_their_memory_if_the_file_can(reads_into):
    source = Source(saved(tt.arange(100)), 50, reads_into)
    assert tt.load(source).tolist() == list(range(100))
    assert source.calls.count("readinto") == 0 if not reads_into else source.calls.count("readinto") >= 16


def test_a_file_that_ends_while_it_is_read_into():
    class Short(Source):
        def read_into(self, target):
            return 0

    with pytest.raises(RuntimeError, match="the file ends within record"):
        tt.load(Short(saved(tt.arange(100)), 50, True))


def test_large_records_stay_aligned(monkeypatch):
    """Their headers are longer, as for sizes beyond 32 bits."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    data = saved([tt.ones(10), tt.ones(1000), tt.ones(5)])
    reader = tt.serialization.archive.ArchiveReader(io.BytesIO(data))
    assert [record.offset % 64 for name, record in reader.records.items() if name.startswith("data/")] == [
        0,
        0,
        0,
    ]
    assert [each.numel() for each in tt.load(io.BytesIO(data))] == [10, 1000, 5]
