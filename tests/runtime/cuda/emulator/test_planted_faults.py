"""Faults planted into compiled kernels and their launches: how many the emulator finds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from triten.runtime.cuda.triton.lazy_gluon import is_supported

PLANTS = Path(__file__).with_name("plant_faults.py")
UNFOUND = 10
"""Of some 160 faults those that change nothing: a barrier that is not needed, a bound that no thread meets, code of
other sizes. More of them would be a sense that the emulator has lost."""
UNFOUND_OF_UNITS = 24
"""Of some 180 faults in kernels of sm_90 those that change nothing: most are in code of other sizes, the others are
waits and fences beside which a later one does the same."""

UNFOUND_IN_TENSOR_MEMORY = 6
"""Of some 80 faults in kernels of sm_100 those that change nothing: a wait behind which another one is, a barrier for
which nobody waits any more, code that is not gone through."""


def planted(**more: str) -> list[dict[str, str]]:
    """What became of each fault."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "TRITEN_EMULATE")}
    done = subprocess.run(
        [sys.executable, "-P", str(PLANTS)],
        capture_output=True,
        text=True,
        env=environment | {"TRITEN_CUDA": "emulate"} | more,
    )
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, str]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["call"] for row in rows if row["found"]} == {row["call"] for row in rows}
    return rows


def missed(rows: list[dict[str, str]]) -> list[str]:
    return [f"{row['call']}: {row['fault']}" for row in rows if not row["found"]]


def test_planted_faults_are_found() -> None:
    rows = planted()
    assert len(rows) >= 140
    assert len(missed(rows)) <= UNFOUND, missed(rows)
    # What a result alone would not tell.
    for fault, what in (
        ("missing barrier 0", "without a barrier"),
        ("address that is not aligned", "misaligned address"),
        ("memory of no block", "illegal memory access"),
        ("wait for too few copies 0", "asynchronous copy is done"),
        ("atomic operation without an order 0", "in no order"),
    ):
        assert any(row["fault"] == fault and what in row["found"] for row in rows), fault


def test_faults_planted_into_kernels_of_sm_90_are_found() -> None:
    rows = planted(TRITEN_EMULATE="90")
    assert len(rows) >= 170
    assert len(missed(rows)) <= UNFOUND_OF_UNITS, missed(rows)
    for fault, what in (
        ("missing wait for a bulk copy 0", "before their bulk copy is done"),
        ("wrong parity 2", "wait for ever"),
        ("fewer bytes expected 0", "bulk copy"),
        ("more bytes expected 0", "wait for ever"),
        ("missing proxy fence 2", "without fence.proxy.async"),
        ("missing wait for products 1", "before its product is done"),
        ("missing fence of registers 0", "without wgmma.fence"),
        ("missing barriers 1", "race"),
        ("missing wait for stores 2", "still reads"),
        ("misaligned place in shared memory 0", "misaligned address"),
        ("tensor that is larger than its memory, first map", "illegal memory access"),
    ):
        assert any(row["fault"] == fault and what in row["found"] for row in rows), fault


@pytest.mark.skipif(not is_supported(), reason="this Triton has no such Gluon")
def test_faults_planted_into_kernels_of_sm_100_are_found() -> None:
    rows = planted(TRITEN_EMULATE="100", TRITEN_TUNING_STORE="0")
    assert len(rows) >= 70
    assert len(missed(rows)) <= UNFOUND_IN_TENSOR_MEMORY, missed(rows)
    for fault, what in (
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
    ):
        assert any(row["fault"] == fault and what in row["found"] for row in rows), fault
