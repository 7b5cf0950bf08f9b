"""Programs of PyTorch's that use torch.fx, under `python -m triten.as_torch`."""

import subprocess
import sys
from pathlib import Path

import triten

PROGRAM = """
import copy, pickle
import torch
import torch.fx as fx
from torch.fx import GraphModule, Tracer, symbolic_trace
from torch.fx.experimental.optimization import fuse
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module
from torch.fx.proxy import TraceError

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)
    def forward(self, x: torch.Tensor):
        return torch.relu(self.bn(self.conv(x))).to(torch.float64).flatten(1)

module = symbolic_trace(Model().eval())
print(module.code.strip())
x = torch.ones(1, 1, 4, 4)
assert pickle.loads(pickle.dumps(module))(x).equal(module(x))
assert copy.deepcopy(module)(x).equal(module(x))
torch.testing.assert_close(fuse(module)(x), module(x))
ShapeProp(module).propagate(x)
print(list(module.graph.nodes)[-1].meta["tensor_meta"].dtype)
try:
    symbolic_trace(lambda x: x if x else 0)
except TraceError as error:
    print(error)

class Told(fx.Proxy):
    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        print("recorded", orig_method.__name__)
        return super().__torch_function__(orig_method, types, args, kwargs)

class Telling(Tracer):
    def proxy(self, node):
        return Told(node, self)

Telling().trace(lambda x: torch.relu(x))

class Handling:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "handled"
print(torch.add(Handling(), 1))
"""

PRINTED = """\
def forward(self, x : torch.Tensor):
    conv = self.conv(x);  x = None
    bn = self.bn(conv);  conv = None
    relu = torch.relu(bn);  bn = None
    to = relu.to(torch.float64);  relu = None
    flatten = to.flatten(1);  to = None
    return flatten
torch.float64
symbolically traced variables cannot be used as inputs to control flow
recorded relu
handled
"""


def test_a_program_runs(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "triten.as_torch", str(path)],
        env={"PYTHONPATH": str(Path(triten.__file__).parents[1]), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout == PRINTED
