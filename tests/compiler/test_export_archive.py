"""Saved programs load in a process without the modules' source and without Triton; damaged files raise
errors.
"""

import io
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.compiler.export import safetensors
from triten.compiler.export.archive import MODEL, WEIGHTS
from triten.tests.compiler.beside_eager import same
from triten.tests.compiler.exported_models import CASES, made
from triten.utils._pytree import tree_leaves

READER = """
import dataclasses, importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("triton", "cupy") or name.startswith("triten.tests"):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Refuse())
import triten as tt
from triten.utils._pytree import register_dataclass, tree_leaves

@dataclasses.dataclass
class Batch:
    features: object
    mask: object

register_dataclass(Batch, serialized_type_name="triten.tests.Batch")
for name in sys.argv[2:]:
    calls = tt.load(f"{sys.argv[1]}/{name}.calls.pt", weights_only=False)
    module = tt.export.load(f"{sys.argv[1]}/{name}.pt2").module()
    found = []
    for call, (args, kwargs) in enumerate(calls):
        if name == "containers":
            args = (args[0], Batch(args[1][0], None), args[2])
        tt.manual_seed(call)
        with tt.no_grad():
            result = module(*args, **kwargs)
        leaves = [x.clone() if isinstance(x, tt.Tensor) else x for x in tree_leaves((result, args, kwargs))]
        found.append((leaves, {k: v.detach().clone() for k, v in module.state_dict().items()}))
    tt.save(found, f"{sys.argv[1]}/{name}.found.pt")
print(sorted({name.partition(".")[0] for name in sys.modules} & {"triton", "cupy"}))
"""


def plain(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments without the classes of the tests."""
    return (args[0], (args[1].features, None), args[2]) if name == "containers" else args


@pytest.fixture(scope="module")
def read_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save every program with its results, read it in another process, and return the folder."""
    folder = tmp_path_factory.mktemp("programs")
    for name, case in CASES.items():
        args, kwargs = case.arguments("cpu")
        tt.export.save(tt.export.export(made(name, "cpu"), args, kwargs), folder / f"{name}.pt2")
        tt.save([(plain(name, args), kwargs)] * 2, folder / f"{name}.calls.pt")
    command = [sys.executable, "-P", "-c", READER, str(folder), *CASES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]"], "Triton and CuPy are not imported"
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_process_without_the_source_gives_the_same_bits(read_elsewhere: Path, name: str) -> None:
    module = made(name, "cpu")
    args, kwargs = CASES[name].arguments("cpu")
    found = tt.load(read_elsewhere / f"{name}.found.pt", weights_only=False)
    for call, (leaves, state) in enumerate(found):
        tt.manual_seed(call)
        with tt.no_grad():
            expected = module(*args, **kwargs)
        same(leaves, tree_leaves((expected, args, kwargs)), f"call {call}")
        same(state, {k: v.detach() for k, v in module.state_dict().items()}, f"call {call}: state")


def saved(module: nn.Module, *args: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    tt.export.save(tt.export.export(module, args), file, **options)
    return file.getvalue()


def changed(data: bytes, name: str, change: Any) -> io.BytesIO:
    """Return an archive with one record changed and correct checksums."""
    made_ = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(made_, "w") as after:
        for each in before.namelist():
            after.writestr(each, change(before.read(each)) if each == name else before.read(each))
    return made_


def changed_model(data: bytes, change: Any) -> io.BytesIO:
    def rewritten(text: bytes) -> bytes:
        model = json.loads(text)
        change(model)
        return json.dumps(model).encode()

    return changed(data, MODEL, rewritten)


@pytest.fixture(scope="module")
def linear() -> bytes:
    return saved(nn.Linear(2, 3), tt.ones(1, 2))


def test_a_program_is_the_same_after_a_round_trip(linear: bytes, tmp_path: Path) -> None:
    program = tt.export.export(made("tied", "cpu"), *CASES["tied"].arguments("cpu"))
    tt.export.save(program, tmp_path / "a.pt2", extra_files={"note": "text"})
    extra = {"note": ""}
    loaded = tt.export.load(str(tmp_path / "a.pt2"), extra_files=extra)
    assert extra == {"note": "text"} and str(loaded) == str(program)
    same(loaded.state_dict, program.state_dict)
    assert loaded.state_dict["head.weight"] is loaded.state_dict["token.weight"]
    assert isinstance(loaded.state_dict["kernel"], nn.Parameter)
    with pytest.raises(ValueError, match="no extra file 'other'"):
        tt.export.load(tmp_path / "a.pt2", extra_files={"other": ""})
    tt.export.save(loaded, tmp_path / "b.pt2")
    assert str(tt.export.load(tmp_path / "b.pt2")) == str(program)


def test_an_archive_holds_no_pickle_and_no_python(linear: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(linear)) as archive:
        assert sorted(archive.namelist()) == [
            "archive_format",
            "data/constants.safetensors",
            "data/weights.safetensors",
            "models/model.json",
        ]
        model = json.loads(archive.read(MODEL))
    assert model["schema_version"] == {"major": 1, "minor": 1}
    assert [row["target"] for row in model["graph"] if row["op"] == "call_function"] == [
        "aten::t",
        "aten::addmm",
    ]


def test_a_newer_schema_is_refused(linear: bytes) -> None:
    for version in ({"major": 2, "minor": 0}, {"major": 1, "minor": 2}):
        newer = changed_model(
            linear, lambda model, v=version: model.update(schema_version=v, producer="triten 9.9")
        )
        with pytest.raises(
            RuntimeError, match=r"schema \d.\d, written by triten 9.9.*install a newer triten"
        ):
            tt.export.load(newer)


def test_damaged_files_are_refused(linear: bytes) -> None:
    chosen = random.Random(0)
    for _ in range(60):
        damaged = bytearray(linear)
        damaged[chosen.randrange(len(damaged))] ^= 1 << chosen.randrange(8)
        try:
            program = tt.export.load(io.BytesIO(bytes(damaged)))
        except RuntimeError as error:
            assert "damaged" in str(error) or "holds no program" in str(error)
        else:  # a bit that nothing reads, such as one of a time
            same(program.state_dict, tt.export.load(io.BytesIO(linear)).state_dict)
    for size in (0, 100, len(linear) - 1):
        with pytest.raises(RuntimeError, match="is damaged, or is no archive"):
            tt.export.load(io.BytesIO(linear[:size]))


def set_step(index: int, **changes: Any) -> Any:
    return lambda model: model["graph"][index].update(changes)


FORGED = {
    "another shape": (
        set_step(3, val={"sizes": [2, 4], "strides": [1, 2], "dtype": "float32", "device": "cpu"}),
        "it gives",
    ),
    "an unknown operator": (
        set_step(3, target="aten::no_such"),
        "uses the operator aten::no_such, which is not known",
    ),
    "an unknown node": (set_step(3, args=[{"node": "nobody"}]), "damaged: KeyError"),
    "a name that is code": (set_step(3, name="t = 1\nimport os"), "damaged: ValueError: the name"),
    "an unknown argument": (
        set_step(3, kwargs={"x); import os": 1}),
        "damaged: ValueError: aten::t has no arguments",
    ),
    "another size of a weight": (
        lambda model: model["tensors"]["weight"].update(sizes=[2, 2]),
        "'weight' has other elements than are described",
    ),
    "a structure with other leaves": (
        lambda model: model.update(in_tree={"tuple": ["*"]}),
        "the structure of arguments",
    ),
    "inputs in another order": (lambda model: model["inputs"].reverse(), "the inputs of the graph"),
    "a negative stride": (
        set_step(0, val={"sizes": [3, 2], "strides": [-2, 1], "dtype": "float32", "device": "cpu"}),
        "damaged: ValueError",
    ),
}


def set_strides(*strides: int) -> Any:
    def change(model: Any) -> None:
        model["tensors"]["weight"]["strides"] = list(strides)
        model["graph"][0]["val"]["strides"] = list(strides)
        model["graph"][3]["val"]["strides"] = list(strides)[::-1]

    return change


def insert_steps(*steps: tuple[str, list[Any]]) -> Any:
    def change(model: Any) -> None:
        rows = [
            {"op": "call_function", "name": f"step{i}", "target": target, "args": args}
            for i, (target, args) in enumerate(steps)
        ]
        model["graph"][3:3] = rows

    return change


WEIGHT = {"node": "p_weight"}
FORGED |= {
    "a tensor whose memory is mostly gaps": (set_strides(2**30, 1), "'weight' has the sizes"),
    "a step with a thousand million results": (
        insert_steps(("aten::tensor_split.sections", [WEIGHT, 10**9])),
        "sections with 1000000000 results",
    ),
    "as many as a size": (
        insert_steps(
            ("aten::expand", [WEIGHT, [10**9, 3, 2]]), ("aten::unbind.int", [{"node": "step0"}, -3])
        ),
        "unbind.int with 1000000000 results",
    ),
    "pieces of one element": (
        insert_steps(
            ("aten::expand", [WEIGHT, [10**9, 3, 2]]), ("aten::split.Tensor", [{"node": "step0"}, 1])
        ),
        "split.Tensor with 1000000000 results",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_graph_is_refused(linear: bytes, what: str) -> None:
    change, message = FORGED[what]
    with pytest.raises(RuntimeError, match=message):
        tt.export.load(changed_model(linear, change))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_records_are_refused(linear: bytes, method: int) -> None:
    file = io.BytesIO(linear)
    with zipfile.ZipFile(file, "a", method) as archive:
        archive.writestr("extra/large", bytes(1 << 20))
    assert len(file.getvalue()) < 1 << 14
    with pytest.raises(RuntimeError, match="record 'extra/large' is compressed"):
        tt.export.load(file)


def test_a_tensor_that_is_a_column_of_a_large_one_is_not_saved() -> None:
    module = nn.Module()
    module.forward = lambda x: x + module.column  # type: ignore[method-assign]
    module.register_buffer("column", tt.empty(4, 1 << 21)[:, 0])
    with pytest.raises(NotImplementedError, match=r"'column' has the sizes .* clone it"):
        saved(module, tt.ones(4))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tt.export.load(tmp_path / "none.pt2")
    tt.save({"x": tt.ones(1)}, tmp_path / "weights.pt")
    with pytest.raises(RuntimeError, match=r"holds no program that .* wrote"):
        tt.export.load(tmp_path / "weights.pt")


def test_a_class_that_is_not_registered_is_named(linear: bytes) -> None:
    forged = changed_model(
        linear, lambda m: m.update(out_tree={"registered": ["*"], "name": "my.Class", "context": None})
    )
    with pytest.raises(ValueError, match=r"objects of the class 'my.Class', which is not registered here"):
        tt.export.load(forged)


def test_what_cannot_be_saved_is_named() -> None:
    class Keyed(nn.Module):
        def forward(self, x: tt.Tensor) -> Any:
            return {(1, 2): x}

    with pytest.raises(NotImplementedError, match=r"a dict with the key \(1, 2\), a tuple, cannot be saved"):
        saved(Keyed(), tt.ones(1))
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram'"):
        tt.export.save(nn.ReLU(), io.BytesIO())  # type: ignore[arg-type]


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "float8_e4m3fn", "float8_e5m2"]  # fmt: skip


def test_safetensors_keep_every_dtype() -> None:
    given = {name: tt.tensor([[0, 1, 1]]).to(getattr(tt, name)) for name in DTYPES}
    given |= {"empty": tt.ones(0, 3), "number": tt.tensor(2.5), "strided": tt.arange(6).view(2, 3).t()}
    found = safetensors.loads(safetensors.dumps(given))
    same(dict(sorted(found.items())), {k: v.contiguous() for k, v in sorted(given.items())})


def test_safetensors_are_checked(linear: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(linear)) as archive:
        data = archive.read(WEIGHTS)
    for damaged in (
        b"",
        data[:7],
        data[:-1],
        data + b"\0",
        b"\xff" * 8 + data[8:],
        data.replace(b"F32", b"F16"),
    ):
        with pytest.raises(ValueError, match="safetensors: "):
            safetensors.loads(damaged)
