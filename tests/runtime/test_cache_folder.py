"""One folder has all that the package caches: the environment names it, and relative folders of XDG are ignored."""

from pathlib import Path

import pytest

from triten.compiler.triton.source_files import directory
from triten.runtime.cache_folder import cache_folder
from triten.runtime.cpu import object_code
from triten.runtime.cuda.triton.cubin_store import default_directory


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TRITEN_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/cache", "HOME": "/home/me"}, "/own"),
        ({"TRITEN_CACHE_DIR": "", "XDG_CACHE_HOME": "/cache", "HOME": "/home/me"}, "/cache/triten"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/triten"),
        ({"HOME": "/home/me"}, "/home/me/.cache/triten"),
    ],
)
def test_the_environment_chooses_the_folder_of_all_caches(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("TRITEN_CACHE_DIR", "TRITEN_CACHE_MAXSIZE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
    assert default_directory() == Path(expected) / "cubins"
    assert directory() == Path(expected) / "sources"
    assert object_code._path("key") == Path(expected) / "objects" / "key.o"
