"""Kinds of dtypes have one name and one meaning in the kernel tables of all devices."""

import pytest

from triten.cpu_fallback.elementwise import pointwise as on_cpu
from triten.dispatch.structured import dtype_kinds
from triten.triton_kernels.elementwise import pointwise as on_cuda

KINDS = {name: kinds for name, kinds in vars(dtype_kinds).items() if name.isupper()}
TABLES = {
    "cpu": {name: row[-1] for name, row in on_cpu.OPERATORS.items()},
    "cuda": {name: row[-1] for table in (on_cuda.FUNCTIONS, on_cuda.SCALED) for name, row in table.items()},
}


def test_kinds():
    assert KINDS == {
        "FLOAT": "f",
        "INEXACT": "fc",
        "INTEGER": "iu",
        "BITS": "biu",
        "REAL": "biuf",
        "ANY": "biufc",
        "REAL_NUMBERS": "iuf",
        "NUMBERS": "iufc",
    }


@pytest.mark.parametrize("module", [on_cpu, on_cuda], ids=TABLES)
def test_modules_have_no_kinds_of_their_own(module):
    own = {name: value for name, value in vars(module).items() if name in KINDS}
    assert own and own == {name: KINDS[name] for name in own}


@pytest.mark.parametrize("device", TABLES)
def test_rows_have_named_kinds(device):
    assert set(TABLES[device].values()) <= set(KINDS.values())


def test_complex_numbers_have_kernels_of_their_own_on_cuda():
    assert [name for name, kinds in TABLES["cuda"].items() if "c" in kinds] == []
    assert TABLES["cpu"]["mul"] == dtype_kinds.ANY and TABLES["cuda"]["mul"] == dtype_kinds.REAL
