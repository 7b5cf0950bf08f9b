"""Faults planted into compiled kernels and their launches: each is found, or it is known why it changes nothing."""

import importlib.metadata

import pytest

from triten.tests.runtime.cuda.emulator.planted_table import HARMLESS, TABLE, kind, planted, section

# What a result alone would not tell.
SENSES = {
    "80": (
        ("missing barrier 0", "without a barrier"),
        ("address that is not aligned", "misaligned address"),
        ("memory of no block", "illegal memory access"),
        ("wait for too few copies 0", "asynchronous copy is done"),
        ("atomic operation without an order 0", "in no order"),
    ),
    "90": (
        ("missing wait for a bulk copy 0", "before their bulk copy is done"),
        ("wrong parity 2", "wait for ever"),
        ("fewer bytes expected 0", "than were expected"),
        ("more bytes expected 0", "wait for ever"),
        ("missing proxy fence 2", "without fence.proxy.async"),
        ("missing wait for products 1", "before its product is done"),
        ("missing fence of registers 0", "without wgmma.fence"),
        ("missing fence of registers 1", "since the last wgmma.fence"),
        ("missing barriers 1", "race"),
        ("missing wait for stores 2", "still reads"),
        ("misaligned place in shared memory 0", "misaligned address"),
        ("tensor that is larger than its memory, first map", "illegal memory access"),
    ),
}


@pytest.mark.parametrize("target", SENSES)
def test_planted_faults_are_found(target: str) -> None:
    rows = planted(target)
    assert len(rows) >= 200
    assert {row["call"] for row in rows if row["found"]} == {row["call"] for row in rows}
    missed = {(row["call"], row["fault"]) for row in rows if not row["found"]}
    assert missed == set(HARMLESS[target])
    for fault, what in SENSES[target]:
        assert any(row["fault"] == fault and what in row["found"] for row in rows), fault
    table = TABLE.read_text()
    if f"Triton {importlib.metadata.version('triton')}." in table:
        assert section(target, rows) in table, "planted_table.py writes it anew"


def test_a_finding_has_no_numbers_and_no_kernel_in_the_table() -> None:
    assert kind("") == ""
    assert kind("CUDA error: misaligned address: store of 16 bytes at 0x7f04: kernel 'mm', PTX line 3") == (
        "misaligned address: store of n bytes at n"
    )
