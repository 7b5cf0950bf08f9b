"""The namespace: its names and signatures, how it is found, and what it says of itself."""

import inspect
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

import pytest

import triten as tt
import triten.array_api as xp


def strict_functions() -> list[tuple[ModuleType, str]]:
    """Return the functions of array-api-strict, each with triten's namespace for it."""
    strict = pytest.importorskip("array_api_strict")
    own = [
        (theirs, ours, name)
        for theirs, ours in ((strict, xp), (strict.linalg, xp.linalg), (strict.fft, xp.fft))
        for name in theirs.__all__
        if "strict_flags" not in name and name not in ("ArrayAPIStrictFlags", "Device", "__version__")
    ]
    return [*own, (strict.linalg, xp.linalg, "eig"), (strict.linalg, xp.linalg, "eigvals")]


def test_every_name_is_there() -> None:
    assert [name for _, ours, name in strict_functions() if not hasattr(ours, name)] == []


def test_signatures_are_the_standards() -> None:
    def described(function):
        return [
            (p.name, p.kind, None if "UNDEF" in str(p.default) else p.default)
            for p in inspect.signature(function).parameters.values()
        ]

    for theirs, ours, name in strict_functions():
        function = getattr(theirs, name)
        if inspect.isfunction(function) and name != "__array_namespace_info__":
            assert described(getattr(ours, name)) == described(function), name


def test_it_is_imported_at_first_use() -> None:
    program = (
        "import sys, triten as tt\n"
        "assert 'triten.array_api' not in sys.modules\n"
        "from triten import array_api as xp\n"
        "assert xp.__array_api_version__ == '2025.12' and xp.add(xp.ones(2), 1)[0] == 2\n"
        "import triten.array_api as imported\n"
        "assert imported is sys.modules['triten.array_api'] is tt.ones(2).__array_namespace__()\n"
        "assert xp.add is imported.add and xp.linalg is imported.linalg\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)


def test_array_namespace() -> None:
    x = tt.ones(2)
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match=r"api_version.*got '1999.12'"):
        x.__array_namespace__(api_version="1999.12")


def test_entry_point() -> None:
    project = tomllib.loads((Path(tt.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    declared = EntryPoint("triten", project["entry-points"]["array_api"]["triten"], "array_api")
    assert declared.load() is xp
    # A checkout on the path alone is not installed, and has none.
    assert [each for each in entry_points(group="array_api") if each.name == "triten"] in ([], [declared])


def test_to_device(device: str) -> None:
    x = xp.asarray([1, 2], device=device)
    assert x.to_device(device) is x
    assert x.to_device("cpu").tolist() == [1, 2] and x.to_device("cpu").device == tt.device("cpu")
    assert x.to_device(x.device, stream=None) is x


def test_info() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() in info.devices() and info.default_device() == xp.empty(0).device
    assert info.default_dtypes()["real floating"] is xp.empty(0).dtype
    assert info.default_dtypes(device="cpu")["indexing"] is xp.argmax(xp.ones(2)).dtype
    assert set(info.dtypes()) == {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    }
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": xp.bool,
        "float32": xp.float32,
        "float64": xp.float64,
    }
    with pytest.raises(ValueError, match="got 'float'"):
        info.dtypes(kind="float")


def test_default_dtype_is_followed() -> None:
    tt.set_default_dtype(tt.float64)
    try:
        assert xp.__array_namespace_info__().default_dtypes()["complex floating"] is xp.complex128
        assert xp.asarray(1.0).dtype is xp.linspace(0, 1, 2).dtype is xp.fft.fftfreq(3).dtype is xp.float64
    finally:
        tt.set_default_dtype(tt.float32)
