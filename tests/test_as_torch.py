"""`python -m triten.as_torch` and `import triten.as_torch`: `import torch` imports this package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import triten as tt
from triten.torch_version import TorchVersion

PACKAGE_PARENT = str(Path(tt.__file__).parents[1])


def run(*arguments: str, cwd: Path, code: int = 0, text: str | None = None) -> str:
    """Return the output and errors of a python process that sees this package and the folder `cwd`."""
    environment = {**os.environ, "PYTHONPATH": PACKAGE_PARENT, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, input=text
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def as_torch(program: str, tmp_path: Path, *arguments: str, code: int = 0) -> str:
    """Return a script's output under ``python -m triten.as_torch``."""
    (tmp_path / "program.py").write_text(program)
    return run("-m", "triten.as_torch", "program.py", *arguments, cwd=tmp_path, code=code)


def test_modules_are_the_very_same(tmp_path: Path) -> None:
    as_torch(
        """
import sys
import torch, torch.nn as nn, torch.nn.functional as F
import torch.optim
from torch.utils.data import DataLoader
from torch.autograd.gradcheck import gradcheck
import triten
assert torch is triten and sys.modules["torch"] is triten
assert nn is triten.nn is torch.nn is sys.modules["torch.nn"]
assert F is triten.nn.functional is torch.nn.functional
assert DataLoader is triten.utils.data.DataLoader
import functorch, torch._functorch.vmap, torch._functorch.make_functional
assert functorch.vmap is torch.vmap and functorch.make_functional.__module__.startswith("torch.nn")
assert torch._functorch.vmap is sys.modules["triten.dispatch.layers.vmap"]
assert torch.StorageBase is torch.UntypedStorage
assert torch.Future is torch.futures.Future and torch.mtia.is_available() is False
assert not isinstance(3, torch.ListType) and torch._C._is_tracing() is False
assert not hasattr(torch.ones(1), "__array_namespace__")
from torch.optim.adam import adam
from torch._higher_order_ops.scan import scan
from torch.autograd.variable import VariableMeta
from torch.quantization.observer import HistogramObserver, MinMaxObserver
from functorch.experimental import chunk_vmap
from torch.nn.functional import has_torch_function, has_torch_function_variadic
from torch.overrides import enable_reentrant_dispatch, redispatch_function
from torch.utils._mode_utils import all_same_mode, no_dispatch
from torch.utils._python_dispatch import BaseTorchDispatchMode, is_in_torch_dispatch_mode
assert chunk_vmap(torch.sin)(torch.zeros(4)).tolist() == [0.0] * 4
assert torch._VF.split(torch.ones(4), 2)[0].tolist() == [1.0, 1.0]
assert torch._C._VariableFunctions.add is torch.add and has_torch_function((2,)) is False
with BaseTorchDispatchMode(), no_dispatch():
    assert is_in_torch_dispatch_mode() and (torch.ones(1) + 1).item() == 2
for owner, name in ((torch, "matrix_rank"), (torch, "eig"), (torch.Tensor, "solve")):
    try:
        getattr(owner, name)(torch.ones(2, 2))
    except RuntimeError as error:
        assert f"torch.{name}" in str(error) and f"Use torch.linalg.{name}" in str(error)
    else:
        raise AssertionError(name)
import torch.cpu.amp.autocast_mode
assert torch.cpu.amp.autocast is torch.cpu.amp.autocast_mode.autocast
import torch.profiler.itt
from torch.autograd.profiler_util import EventList, FunctionEvent
assert not torch.profiler.itt.is_available()
try:
    torch.classes.a.B
except RuntimeError as error:
    assert str(error) == "Class a.B not registered!"
import torch._dynamo
assert torch._dynamo.eval_frame.OptimizedModule and torch._dynamo.utils.counters is not None
assert torch.autograd.gradcheck is gradcheck  # the function, not the module of its name
assert torch.manual_seed(0) is torch.default_generator
assert torch.randperm(8).tolist() == [4, 0, 7, 3, 2, 5, 1, 6]  # PyTorch's numbers
assert triten.nn.__spec__.name == triten.nn.__name__ == "triten.nn"
for name, module in list(sys.modules.items()):
    if name.startswith("torch."):
        assert module is sys.modules["triten." + name[6:]], name
""",
        tmp_path,
    )


def test_other_packages_find_torch_by_name_and_version(tmp_path: Path) -> None:
    as_torch(
        """
import importlib.metadata, importlib.util
assert importlib.util.find_spec("torch") is not None
assert importlib.util.find_spec("torch.nn.functional").name in ("triten.nn.functional", "torch.nn.functional")
assert importlib.util.find_spec("torch.nothing") is None
import torch
version = importlib.metadata.version("torch")
assert version == torch.__version__ == torch.version.__version__
assert tuple(map(int, version.split("+")[0].split("."))) >= (2, 0)
assert torch.__version__ >= "2.1" and torch.__version__ < (99,)
assert "torch" in {each.metadata["Name"] for each in importlib.metadata.distributions()}
try:
    importlib.metadata.version("torch_nothing")
except importlib.metadata.PackageNotFoundError:
    pass
""",
        tmp_path,
    )


def test_a_module_that_is_not_here_is_named_by_both_names(tmp_path: Path) -> None:
    printed = as_torch("import torch.nothing.below", tmp_path, code=1)
    assert "No module named 'torch.nothing'" in printed
    assert "'triten.nothing'" in printed


def test_modules_whose_names_lie_elsewhere_are_found(tmp_path: Path) -> None:
    as_torch(
        """
import importlib.util
import torch
assert torch._dynamo.is_compiling() is False
assert torch.distributed.tensor.placement_types.Shard is torch.distributed.tensor.Shard
from torch.distributed.tensor.placement_types import *
from torch.distributed._tensor.placement_types import _StridedShard, Placement
assert issubclass(_StridedShard, Placement) and Shard is torch.distributed.tensor.Shard
import torch.distributed.checkpoint._consolidate_hf_safetensors as consolidation
import triten.distributed.checkpoint._consolidate_hf_safetensors
assert triten.distributed.checkpoint._consolidate_hf_safetensors is consolidation
assert importlib.util.find_spec("torch.distributed.tensor._nothing") is None
def symbolic(g: torch._C.Graph) -> torch._C.Value: ...
try:
    torch._C.Graph()
except NotImplementedError as error:
    assert str(error).startswith("torch._C.Graph is not supported: programs of torch.jit run as Python")
try:
    torch._C.nothing
except AttributeError as error:
    assert "has no attribute 'nothing'" in str(error)
""",
        tmp_path,
    )


def test_a_script_sees_its_arguments_its_folder_and_itself_as_main(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("value = 3")
    printed = as_torch(
        """
import pickle, sys
import beside
class Kept:
    pass
assert sys.modules["__main__"].Kept is Kept and type(pickle.loads(pickle.dumps(Kept()))) is Kept
assert __name__ == "__main__" and __spec__ is None and __file__.endswith("program.py")
print(sys.argv, beside.value)
raise SystemExit(7)
""",
        tmp_path,
        "--lr",
        "1",
        code=7,
    )
    assert printed == "['program.py', '--lr', '1'] 3\n"


def test_modules_packages_and_code_run_too(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys, torch; from . import other; print(sys.argv[1:], __package__)"
    )
    (package / "other.py").write_text("if __name__ == '__main__': print(__spec__.name)")
    assert run("-m", "triten.as_torch", "-m", "pack", "x", cwd=tmp_path) == "['x'] pack\n"
    assert run("-m", "triten.as_torch", "-m", "pack.other", cwd=tmp_path) == "pack.other\n"
    code = "import sys, torch; print(torch.ones(1).dtype, sys.argv)"
    assert run("-m", "triten.as_torch", "-c", code, "y", cwd=tmp_path) == "torch.float32 ['-c', 'y']\n"
    assert "usage" in run("-m", "triten.as_torch", cwd=tmp_path, code=2)
    assert "usage" in run("-m", "triten.as_torch", "--unknown", cwd=tmp_path, code=2)
    assert "No module named nothing_here" in run(
        "-m", "triten.as_torch", "-m", "nothing_here", cwd=tmp_path, code=1
    )
    assert "can't open file" in run("-m", "triten.as_torch", "nothing.py", cwd=tmp_path, code=2)


def test_a_traceback_has_the_frames_of_the_program_alone(tmp_path: Path) -> None:
    printed = as_torch("import torch\ndef f():\n    torch.ones(2) + torch.ones(3)\nf()\n", tmp_path, code=1)
    assert printed.splitlines()[0] == "Traceback (most recent call last):"
    files = [line for line in printed.splitlines() if line.strip().startswith("File ")]
    assert [line.rpartition(", in ")[2] for line in files] == ["<module>", "f"]
    assert all("program.py" in line for line in files)
    wrong = as_torch("import torch\nx = = 1\n", tmp_path, code=1)
    assert "SyntaxError" in wrong and "as_torch.py" not in wrong


def test_a_torch_that_is_imported_already_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    program = tmp_path / "program.py"
    program.write_text("import torch\nimport triten.as_torch")
    printed = run("program.py", cwd=tmp_path, code=1)
    assert "ImportError: triten.as_torch: torch is imported already" in printed
    assert "python -m triten.as_torch" in printed
    program.write_text("import triten.as_torch\nimport torch, triten\nassert torch is triten")
    run("program.py", cwd=tmp_path)


def test_spawned_processes_have_it_too(tmp_path: Path) -> None:
    printed = as_torch(
        """
import multiprocessing
import torch

def work(queue):
    queue.put(torch.ones(2).sum().item())

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
""",
        tmp_path,
    )
    assert printed == "2.0\n"


def test_handlers_and_modes_by_pytorch_s_names(tmp_path: Path) -> None:
    printed = as_torch(
        """
import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function
from torch.utils._python_dispatch import TorchDispatchMode

class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("subclass", func.__name__)
        return super().__torch_function__(func, types, args, kwargs)

class Mixin:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("mixin", func.__name__)
        return super().__torch_function__(func, types, args, kwargs)

class Mixed(Mixin, torch.Tensor):
    pass

class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "duck"

class Proxy:
    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        return getattr(self.value, name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Proxy(func(*(a.value if isinstance(a, Proxy) else a for a in args), **(kwargs or {})))

doubled = torch.einsum("i,->i", Proxy(torch.ones(2)), Proxy(torch.tensor(2.0)))
assert type(doubled) is Proxy and doubled.value.tolist() == [2.0, 2.0]

assert type(torch.ones(1).as_subclass(Logged) + 1) is Logged
assert type(torch.ones(1).as_subclass(Mixed).exp()) is Mixed
assert type(torch.ones(1).as_subclass(Quiet) + 1) is torch.Tensor
assert torch.add(Duck(), 1) == "duck" and has_torch_function((Duck(),))
assert handle_torch_function(len, (Duck(),), 1) == "duck"
assert torch.overrides.resolve_name(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
assert repr(torch.ones(1, 1).max(1)).startswith("torch.return_types.max(")
assert torch.overrides.is_tensor_like(Duck()) and not torch.overrides.is_tensor_like(1)
with torch._C.DisableTorchFunctionSubclass():
    assert type(torch.ones(1).as_subclass(Logged) + 1) is torch.Tensor

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("mode", func.__name__)
        return func(*args, **(kwargs or {}))

class OfClass(TorchFunctionMode):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

try:
    OfClass().__enter__()
except RuntimeError as error:
    assert "as a classmethod is not supported, please make it a plain method: OfClass" in str(error)

class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print("operator", func)
        return func(*args, **(kwargs or {}))

x = torch.ones(2)
with Functions():
    x.exp()
with Operators():
    x.exp()

class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        return made

    def __init__(self, inner):
        super().__init__()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        print("wrapped", func)
        return torch.ones(2)

Wrapped(x) * 2
""",
        tmp_path,
    )
    assert printed.splitlines() == [
        "subclass add",
        "mixin exp",
        "mode exp",
        "operator aten.exp.default",
        "wrapped aten.mul.Tensor",
    ]


def test_names_in_texts_are_pytorch_s(tmp_path: Path) -> None:
    printed = as_torch(
        "import torch\nx = torch.ones(2)\nprint(x.dtype, x.shape, x.type(), x.layout, torch.channels_last)",
        tmp_path,
    )
    assert printed == "torch.float32 torch.Size([2]) torch.FloatTensor torch.strided torch.channels_last\n"


def test_classes_and_functions_name_pytorch_s_modules(tmp_path: Path) -> None:
    program = """
import importlib, pickle, sys
import torch, torch.fx
from torch.utils.data import DataLoader
from torch.optim.lr_scheduler import StepLR

x = torch.ones(2, 2)
assert str(type(x)) == "<class 'torch.Tensor'>", type(x)
assert str(type(x.max(0))) == "<class 'torch.return_types.max'>", type(x.max(0))
for value, module in (
    (torch.dtype, "torch"), (torch.device, "torch"), (torch.Size, "torch"), (torch.Generator, "torch._C"),
    (torch.no_grad, "torch.autograd.grad_mode"), (torch.autograd.Function, "torch.autograd.function"),
    (torch.FloatStorage, "torch"), (torch.cuda.FloatStorage, "torch.cuda"),
    (torch.nn.Linear, "torch.nn.modules.linear"), (torch.nn.LazyLinear, "torch.nn.modules.linear"),
    (torch.nn.LSTMCell, "torch.nn.modules.rnn"), (torch.nn.Parameter, "torch.nn.parameter"),
    (torch.optim.AdamW, "torch.optim.adamw"), (StepLR, "torch.optim.lr_scheduler"),
    (DataLoader, "torch.utils.data.dataloader"), (torch.nn.functional.relu, "torch.nn.functional"),
    (torch.distributions.Normal, "torch.distributions.normal"), (torch.fx.Graph, "torch.fx.graph"),
):
    assert value.__module__ == module, (value, value.__module__)
    assert pickle.loads(pickle.dumps(value)) is value

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.nn.functional.relu(self.layer(x))

assert [node.op for node in torch.fx.symbolic_trace(Net()).graph.nodes] == [
    "placeholder", "call_module", "call_function", "output"
]
try:
    torch.ones(2).add(torch.device("cpu"))
except TypeError as error:
    assert "triten" not in str(error), error
torch.save(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), "model.pt")
torch.save({"scheduler": StepLR, "max": x.max(0)}, "classes.pt")

# Every class can be found where it says that it is.
for name in "accelerator cuda.amp distributed export fx jit masked mps nn.attention profiler sparse".split():
    importlib.import_module(f"torch.{name}")
import torch.utils.benchmark, torch.utils.checkpoint, torch.utils.data.datapipes.iter
lost = [
    (name, value)
    for name, module in list(sys.modules.items()) if name.startswith("triten.")
    for value in list(vars(module).values())
    if isinstance(value, type) and value.__module__.startswith("torch") and "." not in value.__qualname__
    and getattr(importlib.import_module(value.__module__), value.__qualname__, None) is not value
]
assert not lost, lost
"""
    as_torch(program, tmp_path)
    plain = """
import triten as tt
model = tt.load("model.pt", weights_only=False)
assert type(model[0]) is tt.nn.Linear and model(tt.ones(1, 2)).shape == (1, 3)
with tt.serialization.safe_globals([tt.nn.Sequential, tt.nn.Linear, tt.nn.ReLU, set]):
    assert type(tt.load("model.pt")[1]) is tt.nn.ReLU
assert tt.load("classes.pt", weights_only=False)["scheduler"] is tt.optim.lr_scheduler.StepLR
"""
    run("-c", plain, cwd=tmp_path)


def test_numpy_refuses_what_numpy_does_not_have(tmp_path: Path) -> None:
    """Check that `numpy()` refuses dtypes that NumPy lacks; under its own name, triten returns ml_dtypes' dtypes."""
    program = """
import torch
for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.complex32, torch.float16, torch.uint16):
    try:
        print(torch.zeros(2, dtype=dtype).numpy().dtype)
    except TypeError as error:
        print(error)
try:
    torch.zeros(2, dtype=torch.bfloat16, requires_grad=True).numpy()
except RuntimeError as error:
    print(error)
print(repr(torch.zeros(1, dtype=torch.bfloat16)))
"""
    assert as_torch(program, tmp_path).splitlines() == [
        "Got unsupported ScalarType BFloat16",
        "Got unsupported ScalarType Float8_e4m3fn",
        "Got unsupported ScalarType ComplexHalf",
        "float16",
        "uint16",
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        "tensor([0.], dtype=torch.bfloat16)",
    ]


@pytest.mark.parametrize("name", ["__torch_function__", "__torch_dispatch__"])
def test_a_subclass_with_pytorch_s_name_of_a_handler_alone_is_refused(name: str) -> None:
    def handler(cls: type, func: object, types: object, args: object = (), kwargs: object = None) -> None:
        raise AssertionError

    own = name.replace("torch", "tensor")
    with pytest.raises(TypeError, match=f"Sub: .*{name}.*{own}.*as_torch"):
        type(tt.Tensor)("Sub", (tt.Tensor,), {name: classmethod(handler)})
    mixin = type("Mixin", (), {name: classmethod(handler)})
    with pytest.raises(TypeError, match=name):
        type(tt.Tensor)("Sub", (mixin, tt.Tensor), {})
    both = type(tt.Tensor)("Sub", (tt.Tensor,), {name: classmethod(handler), own: classmethod(handler)})
    assert issubclass(both, tt.Tensor)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("2.9.1", "2.13.0"),
        ("2.13.0rc1", "2.13.0"),
        ("2.13.0.dev20260101", "2.13.0a0"),
        ("2.13.0", "2.13.0+triten.0.1.0"),
        ("2.13.0+cpu", "2.13.0.post1"),
        ("2.13.0+1.2", "2.13.0+1.10"),
        ("1.13", (2, 0)),
        ((2, 12), "2.12.1"),
    ],
)
def test_versions_are_ordered_by_their_numbers(lower: object, higher: object) -> None:
    if isinstance(lower, str):
        assert (
            TorchVersion(lower) < higher and TorchVersion(lower) <= higher and TorchVersion(lower) != higher
        )
    if isinstance(higher, str):
        assert TorchVersion(higher) > lower and TorchVersion(higher) != lower


def test_versions_that_are_the_same() -> None:
    assert TorchVersion("2.13.0") == "2.13" and TorchVersion("2.13") >= (2, 13, 0)
    assert TorchVersion("2.13.0").startswith("2.13.0") and hash(TorchVersion("2.0")) == hash("2.0")
    assert TorchVersion("parrot") == "parrot" and TorchVersion("2.0") != "parrot"
