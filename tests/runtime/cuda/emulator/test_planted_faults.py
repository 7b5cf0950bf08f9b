"""Faults injected into compiled kernels and their launches are found, or have a reason to be harmless."""

import importlib.metadata

import pytest

from triten.runtime.cuda.triton.lazy_gluon import is_supported
from triten.tests.runtime.cuda.emulator.planted_table import HARMLESS, TABLE, kind, line, lines_of, planted

# Faults whose finding must have the given words; a wrong result alone would not show the cause.
SENSES = {
    "80": (
        ("missing barrier 0", "without a barrier"),
        ("address that is not aligned", "misaligned address"),
        ("memory of no block", "illegal memory access"),
        ("wait for too few copies 0", "asynchronous copy is done"),
        ("atomic operation without an order 0", "in no order"),
        ("wrong partner 0", "two threads store different values"),
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
    "100": (
        ("missing commit 0", "wait for ever"),
        ("missing wait 1", "before their bulk copy is done"),
        ("missing wait 2", "while warp 0 still reads it"),
        ("missing wait 5", "before the products of warp 14 are done"),
        ("missing wait for loads 0", "still reads it"),
        ("missing wait for stores 0", "no tcgen05.wait::st"),
        ("lanes of another warp 0", "which has lanes 0 to 31"),
        ("wrong column of sums 0", "never written"),
        ("fewer columns 0", "which are not allocated"),
        ("missing deallocation 0", "no tcgen05.dealloc"),
        ("another number of columns freed 0", "which were not allocated so"),
        ("products by every thread 0", "whose products it does not commit"),
        ("missing proxy fence 0", "without fence.proxy.async"),
    ),
}
LEAST = {"80": 200, "90": 200, "100": 70}
"""Faults that there are."""


@pytest.mark.parametrize("target", SENSES)
def test_planted_faults_are_found(target: str, pytestconfig: pytest.Config) -> None:
    """Inject every other fault, by the run's seed, and those of `SENSES`; `planted_table.py` injects all of
    them.
    """
    if target == "100" and not is_supported():
        pytest.skip("this Triton has no such Gluon")
    table = lines_of(target)
    assert len(table) >= LEAST[target]
    rows = planted(target, pytestconfig.getoption("seed"), [fault for fault, _ in SENSES[target]])
    assert LEAST[target] // 2 <= len(rows) < len(table)
    assert {row["call"] for row in rows if row["found"]} == {each.split(" | ")[0][2:] for each in table}
    missed = {(row["call"], row["fault"]) for row in rows if not row["found"]}
    assert missed == {(row["call"], row["fault"]) for row in rows} & set(HARMLESS[target])
    for fault, what in SENSES[target]:
        assert any(row["fault"] == fault and what in row["found"] for row in rows), fault
    if f"Triton {importlib.metadata.version('triton')}." in TABLE.read_text():
        assert not {line(target, row) for row in rows} - set(table), "planted_table.py writes it anew"


def test_a_finding_has_no_numbers_and_no_kernel_in_the_table() -> None:
    assert kind("") == ""
    assert kind("CUDA error: misaligned address: store of 16 bytes at 0x7f04: kernel 'mm', PTX line 3") == (
        "misaligned address: store of n bytes at n"
    )
