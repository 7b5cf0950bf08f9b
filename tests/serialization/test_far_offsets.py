"""Archives whose directory names a place that no file has."""

import io
import zipfile

import pytest

from triten.serialization.archive import _located


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63, 2**64 - 1, -1])
def test_an_offset_beyond_every_file_is_damage(offset: int) -> None:
    entry = zipfile.ZipInfo("data.pkl")
    entry.header_offset = offset
    with pytest.raises(zipfile.BadZipFile, match="beyond every file"):
        _located(io.BytesIO(b"PK"), entry)
