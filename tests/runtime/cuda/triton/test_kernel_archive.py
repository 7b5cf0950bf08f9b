"""Kernels that came with a program are found by a launch's request, for any Triton that compiled them."""

import dataclasses
import gc

import pytest

from triten.runtime.cuda.triton import cubin_store
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.kernel_archive import KernelArchive, find_archived
from triten.runtime.cuda.triton.kernel_key import KernelRequest, request_key
from triten.runtime.cuda.triton.real_triton import TritonMissingError
from triten.triton_kernels.elementwise.pointwise_functions import add

SIGNATURE = {"a": "fp32", "b": "fp32"}
BINARY = KernelBinary("add", 90, b"code", {}, ("fp32", "fp32"), 4, 1, 0, 0, 1)


def asked(capability: int = 90, divisible: frozenset[str] = frozenset(), **options: object) -> KernelRequest:
    return KernelRequest(add, SIGNATURE, {}, divisible, capability, {"num_warps": 4, **options})


def archive_of(cuda: int = 12080, **changes: object) -> KernelArchive:
    key = request_key(asked())
    assert key is not None
    return KernelArchive("'program.pt2'", {key: dataclasses.replace(BINARY, **changes)}, cuda)


def test_a_kernel_is_found_by_all_that_is_asked_of_it():
    archive = archive_of()
    assert find_archived(asked(), 12080) is archive.kernels[request_key(asked())]
    assert archive.found == 1 and archive.capabilities == (90,)
    for other in (asked(80), asked(divisible=frozenset({"a"})), asked(num_stages=2)):
        assert find_archived(other, 12080) is None


def test_drivers_that_do_not_load_it_do_not_find_it():
    assert find_archived(asked(), 12080) is None  # the archive of the test before is gone
    newer = archive_of(13000)
    assert find_archived(asked(), 12080) is None and find_archived(asked(), 13000) is not None
    del newer
    assembly = archive_of(ptx_version=87)
    assert find_archived(asked(), 12040) is None and find_archived(asked(), 12080) is not None
    del assembly
    gc.collect()
    assert find_archived(asked(), 13000) is None


def test_one_of_other_parameters_is_not_taken():
    archive = archive_of(parameter_types=("fp32", "*fp32"))
    assert find_archived(asked(), 12080) is None and archive.found == 0


def test_it_comes_before_the_store_and_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))

    def without_triton(*_):
        raise TritonMissingError("Triton cannot be imported")

    monkeypatch.setattr(cubin_store, "compile_kernel", without_triton)
    archive = archive_of()
    call = add, SIGNATURE, {}, frozenset(), 90, {"num_warps": 4, "enable_fp_fusion": False}
    with pytest.raises(
        RuntimeError, match=r"'add' for sm_90 .*nor among the kernels of 'program.pt2' \(sm_90\); save"
    ):
        cubin_store.find_or_compile(*call, 12080)
    options = cubin_store.chosen_options({"num_warps": 4})
    archive.kernels[request_key(KernelRequest(add, SIGNATURE, {}, frozenset(), 90, options))] = BINARY
    assert cubin_store.find_or_compile(*call, 12080) is BINARY
