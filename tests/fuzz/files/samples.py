"""Whole files of every format, as the library writes them, or PyTorch: small ones, with as many features as fit.

A sample is a dict of files by name; most have one. Samples are made when they are first asked for.
"""

import base64
import functools
import io
import json
import pickle
import tempfile
import zlib
from collections import Counter, OrderedDict
from pathlib import Path

import triten as tt
from triten import nn
from triten.compiler.export.archive import save as save_program
from triten.distributed import checkpoint
from triten.perf.suite.results import Bar, Limits, Result, Row
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.kernel_archive import KernelArchive
from triten.runtime.cuda.triton.kernel_entry import pack
from triten.safetensors import save as save_safetensors
from triten.tests.fuzz.files.parts import CheckpointMetadata
from triten.tests.serialization.test_legacy_files import STORAGE, TENSORS
from triten.tests.shared.plain_values import plain_values
from triten.triton_kernels.tuning.entry import Entry

FILE = "file"
"""The name of a sample's only file."""
KEY = "0123abcd"
PYTORCH_CHECKPOINT = Path(__file__).resolve().parents[2] / "distributed" / "checkpoint" / "pytorch_checkpoint"


def saved(value, protocol=2):
    """Return the saved file of a value."""
    file = io.BytesIO()
    tt.save(value, file, pickle_protocol=protocol)
    return {FILE: file.getvalue()}


def _values():
    x = tt.arange(6.0).reshape(2, 3)
    plain = plain_values()
    sparse = tt.sparse_coo_tensor(tt.tensor([[0, 1], [1, 0]]), tt.ones(2), (2, 2))
    return {
        "tensors": {"x": x, "turned": x.t(), "part": x[:, 1:], "plain": plain},
        "module": nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).state_dict(),
        "kinds": [nn.Parameter(x), nn.Buffer(x), tt.ones(2, dtype=tt.uint16), tt.ones(1, device="meta"), sparse],
        "numbers": [tt.strided, tt.device("cuda:1"), tt.Size([1]), tt.float16, x.to(tt.complex64), x.untyped_storage()],
        "narrow": [tt.ones(3, dtype=each) for each in (tt.bfloat16, tt.float16, tt.bool, tt.int8, tt.complex128)],
        "csr": [tt.eye(2).to_sparse_csr(), tt.quantize_per_tensor(x, 0.5, 1, tt.qint8), x.conj(), OrderedDict(a=x)],
    }  # fmt: skip


@functools.cache
def archives():
    """Return files of `tt.save`."""
    tt.manual_seed(0)
    return {
        f"{name}, protocol {protocol}": saved(value, protocol)
        for name, value in _values().items()
        for protocol in (2, 4)
    }


@functools.cache
def legacy():
    """Return files of the format before PyTorch 1.6."""
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    plain = {"n": [1, 2.5, "text", (1, 2), {3}], "m": Counter("aab")}
    without = b"".join(pickle.dumps(each, 2) for each in [*head, plain, []])
    return {"tensors": {FILE: TENSORS}, "storage": {FILE: STORAGE}, "plain": {FILE: without}}


@functools.cache
def safetensors():
    """Return files of safetensors."""
    several = {
        "weight": tt.arange(6.0).view(3, 2),
        "half": tt.ones(2, dtype=tt.bfloat16),
        "flags": tt.tensor([True, False]),
        "none": tt.empty(0, 3),
        "scalar": tt.tensor(2, dtype=tt.int64),
        "eight": tt.ones(4).to(tt.float8_e4m3fn),
    }
    return {
        "several": {FILE: save_safetensors(several, {"format": "pt"})},
        "empty": {FILE: save_safetensors({})},
    }


class _Program(nn.Module):
    """Parameters, a buffer that is written to, a constant, a view, several results."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.turned = nn.Parameter(tt.arange(6.0).view(2, 3).t())
        self.register_buffer("calls", tt.zeros((), dtype=tt.int64))

    def forward(self, x, factor=2.0):
        self.calls.add_(1)
        y = tt.relu(self.linear(x)) * factor
        return {"y": y, "z": (x @ self.turned).sum(1, keepdim=True), "first": y.max(0)[0]}, self.calls + 0


def _program(module, *args, **options):
    program = tt.export.export(module, args, **options)
    file = io.BytesIO()
    save_program(program, file, extra_files={"note": "text"})
    return program, file.getvalue()


@functools.cache
def programs():
    """Return files of `tt.export.save`."""
    tt.manual_seed(0)
    program, data = _program(_Program(), tt.ones(4, 3))
    binary = KernelBinary("add", 90, b"code", {}, ("*fp32", "i32"), 4, 1, 0, 0, 1)
    program.kernels = [KernelArchive("program", {KEY: binary}, 0)]
    with_kernels = io.BytesIO()
    save_program(program, with_kernels)
    batch = tt.export.Dim("batch", min=2, max=64)
    _, dynamic = _program(
        nn.Sequential(nn.Linear(3, 2), nn.Tanh()), tt.ones(4, 3), dynamic_shapes=({0: batch},)
    )
    return {"module": {FILE: data}, "kernels": {FILE: with_kernels.getvalue()}, "sizes": {FILE: dynamic}}


def state():
    """Return the state that the sample checkpoints hold and are loaded into."""
    return {
        "model": {"weight": tt.arange(6.0).view(2, 3), "bias": tt.ones(2, dtype=tt.int64)},
        "step": 3,
        "name": "a",
    }


@functools.cache
def checkpoints():
    """Return folders of `triten.distributed.checkpoint`."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(state(), checkpoint_id=folder, no_dist=True)
        found = _folder(folder)
    # Each save gives its files names of their own.
    (old,) = (name for name in found if name.endswith(".safetensors"))
    new = "__0_0-" + "0" * 32 + ".safetensors"
    content = CheckpointMetadata.split(found[".metadata"])["content"].replace(old.encode(), new.encode())
    content = json.loads(content) | {"save_id": "0" * 32}
    metadata = CheckpointMetadata.join({"content": json.dumps(content).encode()})
    return {"state": {".metadata": metadata, new: found[old]}}


@functools.cache
def foreign_checkpoints():
    """Return folders of PyTorch's distributed checkpoints."""
    return {"state": _folder(PYTORCH_CHECKPOINT)}


def _folder(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@functools.cache
def results():
    """Return result files of the performance suite."""
    row = Row("elementwise", "add", "a + b", "4x4", "float32", "cpu", bytes=192, flops=16,
              samples={"triten": [1e-6] * 7, "torch": [2e-6] * 7}, bar=Bar("torch", 1.5))  # fmt: skip
    other = Row("elementwise", "mul", "a * b", "4x4", "float32", "cpu", note="missing in torch: mul")
    result = Result({"host": "h"}, {"triten": "1"}, {"device": "cpu", "confidence": 0.95}, rows=[row, other],
                    limits=Limits(1e9, {"float32": 1e10}, 1e-7))  # fmt: skip
    return {"two rows": {FILE: json.dumps(result.as_json(), indent=1).encode()}}


@functools.cache
def kernels():
    """Return entries of the store of compiled kernels."""
    maps = ({"rank": 2, "swizzle": 3},)
    binary = KernelBinary("add", 90, b"code", {}, ("*fp32", "i32"), 4, 1, 0, 0, 1, tensor_maps=maps)
    return {"kernel": {f"{KEY}.kernel": pack(KEY, binary)}}


@functools.cache
def tuning():
    """Return entries of the measured configurations."""
    entry = Entry("module:kernel", "0a1b", "bf16", "4096:16", (128, 64), 4, 3, {"128x64, 4, 3": 10.5}, "H100")
    return {"entry": {"entry.json": json.dumps(entry.as_json()).encode()}}


@functools.cache
def compilations():
    """Return results of ahead-of-time compilations, and error files of workers."""
    error = {
        "message": {
            "message": "ValueError: x",
            "extraInfo": {"py_callstack": "...", "timestamp": "1700000000"},
        }
    }
    return {"result": {FILE: json.dumps({"registers": 32, "spills": 0}).encode()},
            "error": {FILE: json.dumps(error).encode()}}  # fmt: skip


def compressed(files):
    """Return files as text, so that a case does not depend on the samples."""
    return {name: base64.b64encode(zlib.compress(data, 9)).decode() for name, data in files.items()}


def decompressed(texts):
    """Return the files that `compressed` encoded."""
    return {name: zlib.decompress(base64.b64decode(text)) for name, text in texts.items()}
