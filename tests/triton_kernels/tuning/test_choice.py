"""A planned kernel takes the measured configuration, else the shipped one, else its default.

It never takes an undeclared configuration.
"""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from triten.runtime.cuda.driver import driver
from triten.triton_kernels.budget import Configuration
from triten.triton_kernels.tuning import choice, in_force, table
from triten.triton_kernels.tuning.choice import configuration
from triten.triton_kernels.tuning.entry import FORMAT, read_entry, source_of
from triten.triton_kernels.tuning.in_force import tuning_in_force
from triten.triton_kernels.tuning.table import FOLDER, read_table, table_path, table_text

DEFAULT = Configuration((256,), 4)


@pytest.fixture
def ask(made_up, here):
    """Return ask(sizes, dtype), which gives the configuration's tile."""

    def asked(shape=(4096,), dtype="bf16", default=DEFAULT):
        return configuration(made_up, here, dtype, shape, default).tile

    return asked


@pytest.fixture
def ship(tmp_path, monkeypatch):
    """Return ship(entries), which writes a table for the device's capability."""

    def shipped(*entries, capability=90):
        folder = tmp_path / "tables"
        folder.mkdir(exist_ok=True)
        table_path(capability, folder).write_text(table_text(capability, "made up", entries))
        for module in (choice, in_force):
            monkeypatch.setattr(module, "table_path", lambda capability: table_path(capability, folder))
        choice.forget()

    return shipped


def test_the_default_where_nothing_is_known(ask):
    assert ask() == (256,)
    assert ask(default=Configuration((32,), 4)) == (32,)


def test_what_was_measured_comes_before_what_ships(ask, ship, store, device, entry_for):
    ship(entry_for((512,)))
    assert ask() == (512,)
    assert ask((4000,)) == (512,)  # of the same class
    assert ask((4001,)) == ask((8192,)) == ask(dtype="fp32") == (256,)
    store.write(device, entry_for((256,), 4))
    assert ask() == (512,)  # looked up once
    choice.forget()
    assert ask() == (256,)


def test_an_answer_is_the_declared_configuration(made_up, here, store, device, entry_for):
    store.write(device, entry_for())
    found = configuration(made_up, here, "bf16", (4096,), DEFAULT)
    assert (found.tile, found.warps, found.stages) == ((512,), 8, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"tile": (1024,)},
        {"warps": 4},
        {"stages": 2},
        {"tile": (64,), "warps": 4},  # declared, but not for this capability
        {"source": "0" * 64},
        {"dtype": "fp32"},
        {"shape": "4096"},
    ],
    ids=str,
)
def test_what_does_not_fit_counts_for_nothing(ask, ship, store, device, entry_for, changes):
    store.write(device, entry_for(**changes))
    assert ask() == (256,)
    ship(entry_for(**changes))
    assert ask() == (256,)


def test_another_device_knows_nothing(ask, ship, store, entry_for):
    store.write("NVIDIA A100-sm_80", entry_for())
    assert ask() == (256,)
    ship(entry_for(), capability=80)
    assert ask() == (256,)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"format": 1}',
        b"[" * 30000,
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole.replace(b'"warps": 8', b'"warps": true'),
        lambda whole: whole.replace(b'"tile": [', b'"tile": ["x", '),
        lambda whole: whole.replace(b'"format": 1', b'"format": 2'),
        lambda whole: whole.replace(b'"kernel": "', b'"kernel": "x'),
    ],
    ids=range(12),
)
def test_damaged_records_are_passed_over(ask, store, device, entry_for, damage):
    entry = entry_for()
    store.write(device, entry)
    (path,) = store.directory.rglob("*.json")
    whole = path.read_bytes()
    path.write_bytes(damage(whole) if callable(damage) else damage)
    assert path.read_bytes() != whole
    assert ask() == (256,)


def test_every_field_of_an_entry_is_checked(entry_for):
    whole = entry_for().as_json()
    assert read_entry(whole) == entry_for()
    for name in whole:
        assert read_entry({k: v for k, v in whole.items() if k != name}) is None
        for wrong in (None, 1.5, [None], {"a": "b"}):
            assert read_entry(whole | {name: wrong}) is None, (name, wrong)


def test_turned_off(ask, store, device, entry_for, monkeypatch):
    store.write(device, entry_for())
    monkeypatch.setenv("TRITEN_TUNING_STORE", "0")
    assert ask() == (256,)
    monkeypatch.setenv("TRITEN_TUNING_STORE", "1")
    choice.forget()
    assert ask() == (512,)
    monkeypatch.setenv("TRITEN_TUNING_STORE", "yes")
    choice.forget()
    with pytest.raises(ValueError, match="TRITEN_TUNING_STORE: expected 0 or 1, got 'yes'"):
        ask()


def test_asking_looks_once_and_runs_nothing(ask, monkeypatch):
    looked = []
    monkeypatch.setattr(choice, "_known", lambda *place: looked.append(place) or {})
    before = driver().launches
    for _ in range(3):
        for size in (4096, 4097, 5000):
            ask((size,))
    assert len(looked) == 1
    assert driver().launches == before


def test_shipped_tables_can_be_read():
    assert {path.name for path in Path(FOLDER).iterdir()} == {"sm_80.json", "sm_90.json", "sm_100.json"}
    for capability in (80, 90, 100):
        path = table_path(capability)
        given = json.loads(path.read_text())
        assert (given["format"], given["capability"]) == (FORMAT, capability)
        entries = read_table(path)
        assert path.read_text() == table_text(capability, given["origin"], entries)
        # Each entry of a table was measured on a device of the capability, and names the device.
        assert all(entry.device and entry.microseconds for entry in entries)
    assert read_table(table_path(75)) == []


VOID = {
    80: {}, 100: {},
    90: {"triten.triton_kernels.products.warp_specialized_kernels:matmul_warp_specialized": 12},
}  # fmt: skip
"""Numbers of entries without effect, by kernel: its code has changed since; a tuning run on a GPU renews them."""


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_shipped_entries_have_effect_but_for_those_that_wait_for_a_gpu(capability):
    void = [entry for entry in read_table(table_path(capability)) if not entry.is_in_force(capability)]
    assert Counter(entry.kernel for entry in void) == VOID[capability]
    assert all(entry.source != source_of(entry.kernel) for entry in void)  # not for want of a declaration


def test_an_entry_that_chose_the_default_is_in_force(entry_for):
    chosen = replace(entry_for((16,), 4), microseconds={"16 w4 s3": 1.0, "256 w4 s3": 2.0})
    assert chosen.configuration(90) is None  # declared tiles are larger
    assert chosen.is_in_force(90)
    assert not replace(chosen, source="0" * 64).is_in_force(90)
    assert not replace(chosen, microseconds={"256 w4 s3": 2.0, "16 w4 s3": 1.0}).is_in_force(90)
    assert entry_for().is_in_force(90)


def test_what_is_in_force_is_described(made_up, ship, store, device, entry_for):
    made_up, void = entry_for(), entry_for(source="0" * 64, shape="1")
    undeclared = entry_for(tile=(1024,), shape="2")
    ship(made_up, void, undeclared)
    found = tuning_in_force(0)
    assert found == {
        "table": "sm_90.json",
        "sha256": found["sha256"],
        "entries": 3,
        "valid": 1,
        "recorded": 0,
    }
    store.write(device, made_up)
    store.write(device, void)
    assert tuning_in_force(0) == found | {"recorded": 1}
    ship(made_up)
    assert tuning_in_force(0)["sha256"] != found["sha256"]
    assert tuning_in_force(0)["entries"] == 1


def test_what_is_in_force_without_a_table_and_records(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITEN_TUNING_STORE", "0")
    monkeypatch.setattr(in_force, "table_path", lambda capability: tmp_path / "sm_75.json")
    assert tuning_in_force(0) == {
        "table": "sm_75.json", "sha256": None, "entries": 0, "valid": 0, "recorded": 0
    }  # fmt: skip


def test_a_table_that_is_none_is_an_error(tmp_path, entry_for):
    path = tmp_path / "sm_90.json"
    for text in (
        *("[]", '{"format": 0, "origin": "", "entries": []}', '{"format": 1, "entries": []}'),
        *('{"format": 1, "origin": ""}', '{"format": 1, "origin": "", "entries": 1}'),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match="expected a table of format 1"):
            read_table(path)
    for data in (b"{", b"\xff", b"[" * 100_000):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"sm_90\.json: not JSON"):
            read_table(path)
    path.write_text(table_text(90, "made up", [entry_for()]).replace('"warps": 8', '"warps": null'))
    with pytest.raises(ValueError, match="entry 0 is damaged"):
        read_table(path)


def test_a_folder_that_cannot_be_written_is_warned_of_once(
    made_up, here, store, device, entry_for, monkeypatch
):
    store.directory.parent.mkdir(parents=True, exist_ok=True)
    store.directory.write_text("a file where the folder should be")
    with pytest.warns(RuntimeWarning, match=r"cannot be written .*TRITEN_CACHE_DIR") as caught:
        store.write(device, entry_for())
        store.write(device, entry_for(shape="1"))
    assert len(caught) == 1
    assert configuration(made_up, here, "bf16", (4096,), DEFAULT) == DEFAULT


def test_no_table_but_the_one_of_the_capability(ask, ship, entry_for, monkeypatch):
    asked = []
    ship(entry_for())
    read = table.read_table
    monkeypatch.setattr(choice, "read_table", lambda path: asked.append(os.path.basename(path)) or read(path))
    ask()
    assert asked == ["sm_90.json"]
