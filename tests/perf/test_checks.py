"""Each check of a compiled kernel, alone."""

import pytest

from triten.perf.ahead_of_time.checks import Expectation, faults_of

EXPECTED = {
    "registers": 64,
    "shared": 28_160,
    "tensor_memory": 256,
    "opt_in": 232_448,
    "columns": 512,
    "threads": 128,
    "element_bits": {"x": 16, "out": 32},
    "aligned": ["x"],
    "loads": {"x": 128},
}
FOUND = {
    "registers": 64,
    "local": 0,
    "spills": 0,
    "shared": 28_160,
    "tensor_memory": 256,
    "threads": 128,
    "traps": 0,
    "layout": [],
    "matrix": {},
    "widths": {"LDG": {"128": 4, "16": 8}, "STG": {"32": 1}},
    "operands": {
        "x": {"loads": {"128": 4, "16": 8}, "stores": {}},
        "out": {"loads": {}, "stores": {"32": 1}},
    },
}


def test_what_uses_all_of_its_budget_has_no_fault():
    assert faults_of(Expectation(**EXPECTED), FOUND) == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({"registers": 65}, "65 registers of a thread, where the declared occupancy leaves 64"),
        ({"shared": 28_161}, "28161 bytes of shared memory, where the declared occupancy leaves 28160"),
        ({"tensor_memory": 257}, "257 columns of tensor memory, where the declared occupancy leaves 256"),
        ({"tensor_memory": 513}, "513 columns of tensor memory, where there are 512"),
        ({"shared": 232_449}, "232449 bytes of shared memory, where a block can have 232448"),
        (
            {"local": 8, "spills": 2},
            "8 bytes of local memory and 2 accesses to it, where 0 bytes are justified",
        ),
        ({"spills": 1}, "0 bytes of local memory and 1 accesses to it, where 0 bytes are justified"),
        ({"threads": 384}, "384 threads of a block, expected 128"),
        ({"traps": 1}, "it traps: the compiler has left out what the target cannot do"),
        ({"layout": ["parameter 0 is absent"]}, "parameter 0 is absent"),
        ({"error": "died"}, "died"),
    ],
)
def test_what_goes_beyond_it_has_one(found, fault):
    assert fault in faults_of(Expectation(**EXPECTED), FOUND | found)


def test_the_frame_of_a_call_is_no_spill():
    assert faults_of(Expectation(**EXPECTED), FOUND | {"local": 8}) == []


def test_local_memory_that_is_justified_is_no_fault_and_more_of_it_is():
    expected = Expectation(**EXPECTED, local=48)
    assert faults_of(expected, FOUND | {"local": 48, "spills": 9}) == []
    assert faults_of(expected, FOUND | {"local": 56, "spills": 9}) != []


def test_a_matrix_instruction_is_the_one_of_the_target():
    expected = Expectation(**EXPECTED, matrix="HGMMA")
    assert faults_of(expected, FOUND | {"matrix": {"HGMMA": 4}}) == []
    assert faults_of(expected, FOUND | {"matrix": {"HMMA": 4}}) == ["no HGMMA, but ['HMMA']"]
    assert faults_of(expected, FOUND) == ["no HGMMA, but no matrix instruction at all"]


def test_exact_products_have_none():
    expected = Expectation(**EXPECTED, exact=True)
    assert faults_of(expected, FOUND) == []
    assert faults_of(expected, FOUND | {"matrix": {"HMMA": 4}}) == [
        "['HMMA'], where products must round as IEEE 754 has it"
    ]


def operands(**widths):
    return {name: {"loads": {str(bits): 1}, "stores": {}} for name, bits in widths.items()}


def test_a_claim_of_wide_loads_is_held_to_the_operand_and_to_sass():
    expected = Expectation(**EXPECTED)
    assert faults_of(expected, FOUND | {"operands": operands(x=64, y=128)}) == [
        "loads of 'x' are 64 bits wide at most, where 128 are claimed"
    ]
    assert faults_of(expected, FOUND | {"operands": {}})[0].startswith("loads of 'x' are 0 bits wide")
    assert faults_of(expected, FOUND | {"widths": {"LDG": {"64": 1}}}) == [
        "loads in SASS are 64 bits wide at most, where 128 are claimed"
    ]
    assert faults_of(expected, FOUND | {"widths": {"LDGSTS": {"128": 1}}}) == []


def test_what_is_not_aligned_is_accessed_by_the_element():
    expected = Expectation(**(EXPECTED | {"aligned": [], "loads": {}}))
    assert faults_of(expected, FOUND | {"operands": operands(x=16, out=32)}) == []
    assert faults_of(expected, FOUND | {"operands": operands(x=32)}) == [
        "loads of 'x' are 32 bits wide, where only 16 are aligned"
    ]
