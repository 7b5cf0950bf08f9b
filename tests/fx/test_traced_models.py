"""Functions and models become the same nodes as in PyTorch, run as before, and print the code that is expected.

`traced_models.txt` has for each of them the nodes of PyTorch 2.13, a line for each: kind, name, and the target, a
function by its own name. Below stands the code, which is PyTorch's but for where functions lie: ``triten.gelu`` for
``torch._C._nn.gelu``.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import triten as tt
from triten import nn
from triten.nn import functional as F

EXPECTED = Path(__file__).with_name("traced_models.txt")


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(4, 8), nn.Linear(8, 2), nn.Dropout(0.1)

    def forward(self, x):
        return F.log_softmax(self.b(self.drop(tt.relu(self.a(x)))), dim=-1)


class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.linear = nn.Parameter(tt.ones(3, 4)), nn.Linear(4, 5)
        self.register_buffer("scale", tt.ones(4))
        self.plain = tt.ones(4)

    def forward(self, x):
        total = x + self.w * self.scale + self.plain + self.linear.weight[0]
        return tt.topk(tt.sum(self.linear(total).relu(), dim=-1), 3)


class Block(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.downsample = None
        if stride != 1 or i != o:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(8, 8), Block(8, 8))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(16, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(tt.flatten(self.avgpool(x), 1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(8, 24), nn.Linear(8, 8), 2

    def forward(self, x, mask=None):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        a = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(4))
        a = a.softmax(dim=-1)
        return self.out((a @ v).transpose(1, 2).reshape(b, n, c))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.n1, self.n2 = Attention(), nn.LayerNorm(8), nn.LayerNorm(8)
        self.ff = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 8))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        return self.m(x, x, x)[0]


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.d = nn.ModuleDict({"act": nn.Tanh()})

    def forward(self, x):
        for layer in self.layers:
            x = self.d["act"](layer(x))
        return {"out": x, "shape": x.shape}


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return self.l(self.l(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d, self.u = nn.Conv2d(1, 2, 3, padding=1), nn.ConvTranspose2d(2, 1, 2, 2)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.d(x)), 2)
        return tt.cat([x, self.u(y)], dim=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.lstm = nn.Embedding(10, 4), nn.LSTM(4, 4, batch_first=True)

    def forward(self, ids):
        out, (h, _) = self.lstm(self.e(ids))
        return out[:, -1], h


def arith(x):
    return x + 1, 1 - x, x * 2, 2 / x, x // 2, x % 3, x**2, 2**x


def bits(x, y):
    return x @ y, x & y, x | y, x ^ y, ~x, -x, +x, x << 1, x >> 1, 3 << x


def compare(x, y):
    return x == y, x != 1, x < y, x <= y, x > 2, x >= y


def slices(x):
    return x[0], x[1:3], x[..., None], x[:, 0], x[::2, -1], x[x > 0]


def varargs(a, *args, **kwargs):
    return a + args[0] * kwargs["k"]


def nested(x):
    return {"a": [x, (x + 1,)], "b": slice(x, None)}


def unpack(x):
    a, b = tt.split(x, 2)
    c, d = x.chunk(2, dim=1)
    return a + b, c * d


def view_size(x):
    return x.view(x.size(0), -1).mean().item()


def functional(x):
    return F.relu(F.dropout(F.gelu(x), p=0.2, training=False))


def mathematics(x):
    return math.sqrt(x) + math.floor(x)


def where(x):
    return tt.where(x > 0, x, tt.zeros_like(x)).clamp(min=0, max=1).to(tt.float64)


def convfn(x, w, b):
    return F.conv2d(x, w, b, stride=2, padding=1), F.linear(x, w, bias=b)


def shape(x):
    return tt.stack([x, x], dim=0).unsqueeze(0).squeeze().t().contiguous()


def einsum(x):
    return tt.einsum("bij,bjk->bik", x, x), tt.bmm(x, x), x.mm(x)


def inplace(x):
    return x.add_(1).relu_().sub_(x)


def attrs(x):
    return getattr(x, "shape")[0], x.device, x.dtype, x.T, x.grad  # noqa: B009


class P(NamedTuple):
    a: Any
    b: Any


def named_tuple(x):
    return P(x, x + 1)


def absolute(x):
    return abs(x), tt.abs(x), x.abs(), tt.neg(x)


def const(x):
    return tt.ones(2) + x, x + tt.ones(2)


def loop(x):
    for i in range(3):
        x = x + i
    return x


def names(x, device, self_, len):
    return x.to(device), self_, len


def numbered(sum, x_1, x_2, x):
    return sum + x + x_1 + x_2


def dead(x):
    x.exp()
    return x


def annotated(x: tt.Tensor, n: int = 3) -> tt.Tensor:
    return x * n


def functional2(x):
    return (
        F.interpolate(x, scale_factor=2, mode="nearest"),
        F.pad(x, (1, 1)),
        F.cross_entropy(x, x, reduction="sum"),
        F.layer_norm(x, (4,)),
        F.batch_norm(x, None, None, training=True),
    )


def functional3(x):
    return (
        F.avg_pool2d(x, 2),
        F.adaptive_avg_pool2d(x, 1),
        F.softmax(x, dim=1),
        F.normalize(x),
        F.embedding(x, x),
        F.one_hot(x, 3),
        F.scaled_dot_product_attention(x, x, x),
    )


def spaces(x):
    return tt.linalg.norm(x), tt.fft.fft(x), tt.special.erf(x), tt.sigmoid(x), tt.tanh(x), x.sigmoid()


def chain(x):
    return x.foo.bar(1).baz


def maximum(x, y):
    return tt.max(x, dim=1)[0], tt.max(x, y), x.max(), tt.sort(x, descending=True).values


def infinite(x):
    return float("inf") * x, x * float("nan"), x.fill_(-math.inf)


def call(x):
    return x(1, k=2)


def random(x):
    return tt.randn(3) + x, tt.rand_like(x)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "mlp": MLP,
    "param": Attributes,
    "resnet": ResNet,
    "attn": Attention,
    "encoder": Encoder,
    "mha": MultiHead,
    "lists": Lists,
    "twice": Twice,
    "unet": UNet,
    "lstm": Recurrent,
    "arith": lambda: arith,
    "bits": lambda: bits,
    "compare": lambda: compare,
    "slices": lambda: slices,
    "varargs": lambda: varargs,
    "nested": lambda: nested,
    "unpack": lambda: unpack,
    "view_size": lambda: view_size,
    "functional": lambda: functional,
    "math": lambda: mathematics,
    "where": lambda: where,
    "convfn": lambda: convfn,
    "shape": lambda: shape,
    "einsum": lambda: einsum,
    "inplace": lambda: inplace,
    "attrs": lambda: attrs,
    "namedtuple": lambda: named_tuple,
    "abs": lambda: absolute,
    "const": lambda: const,
    "loop": lambda: loop,
    "names": lambda: names,
    "names2": lambda: numbered,
    "dead": lambda: dead,
    "annotated": lambda: annotated,
    "functional2": lambda: functional2,
    "functional3": lambda: functional3,
    "spaces": lambda: spaces,
    "chain": lambda: chain,
    "max": lambda: maximum,
    "inf": lambda: infinite,
    "call": lambda: call,
    "random": lambda: random,
    "defaults": lambda: lambda x, y=2.5, z="s", n=None: (x, y, z, n),
    "kw": lambda: lambda x, *, k=3: x + k,
}


def expectations() -> dict[str, tuple[list[str], str]]:
    """Return nodes and code by the program's name."""
    found = {}
    for section in EXPECTED.read_text().split("=== ")[1:]:
        name, _, text = section.partition("\n")
        nodes, _, code = text.partition("---\n")
        found[name] = (nodes.splitlines(), code.rstrip())
    return found


EXPECTATIONS = expectations()


def line(node: tt.fx.Node) -> str:
    """Format a node as the file does."""
    target = node.target if isinstance(node.target, str) else node.target.__name__
    return f"{node.op} {node.name} {target}"


def test_every_program_has_an_expectation() -> None:
    assert PROGRAMS.keys() == EXPECTATIONS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_are_those_of_pytorch(name: str) -> None:
    traced = tt.fx.symbolic_trace(PROGRAMS[name]())
    assert list(map(line, traced.graph.nodes)) == EXPECTATIONS[name][0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_code(name: str) -> None:
    traced = tt.fx.symbolic_trace(PROGRAMS[name]())
    code = "\n".join(line.rstrip() for line in traced.code.strip().splitlines())
    assert code.replace(f"{P.__module__}_P".replace(".", "_"), "P") == EXPECTATIONS[name][1]


X = tt.arange(12.0).reshape(3, 4) / 7 - 0.5
INPUTS: dict[str, tuple[Any, ...]] = {
    "mlp": (X,),
    "param": (X,),
    "resnet": (tt.arange(1536.0).reshape(2, 3, 16, 16).sin(),),
    "attn": (tt.arange(48.0).reshape(2, 3, 8).sin(),),
    "encoder": (tt.arange(48.0).reshape(2, 3, 8).sin(),),
    "mha": (tt.arange(48.0).reshape(2, 3, 8).sin(),),
    "lists": (X,),
    "twice": (X,),
    "unet": (tt.arange(64.0).reshape(2, 1, 4, 8).sin(),),
    "lstm": (tt.tensor([[1, 2, 3], [4, 5, 6]]),),
    "arith": (X,),
    "bits": (tt.tensor([[1, 2], [3, 4]]), tt.tensor([[5, 6], [7, 8]])),
    "compare": (X, X.flip(0)),
    "slices": (X,),
    "unpack": (tt.arange(16.0).reshape(4, 4),),
    "view_size": (X,),
    "functional": (X,),
    "math": (2.25,),
    "where": (X,),
    "shape": (tt.arange(3.0),),
    "abs": (X,),
    "const": (tt.ones(2),),
    "loop": (X,),
    "names2": (1, 2, 3, 4),
    "dead": (X,),
    "annotated": (X,),
    "max": (X, X.flip(0)),
    "defaults": (1,),
    "kw": (X,),
}


@pytest.mark.parametrize("name", INPUTS)
def test_the_traced_program_gives_what_the_program_gives(name: str) -> None:
    program = PROGRAMS[name]()
    if isinstance(program, nn.Module):
        program.eval()
    traced = tt.fx.symbolic_trace(program)
    expected = program(*INPUTS[name])
    for got in (traced(*INPUTS[name]), tt.fx.Interpreter(traced).run(*INPUTS[name])):
        assert isinstance(got, type(expected))
        tt.testing.assert_close(as_list(got), as_list(expected), rtol=0, atol=0, equal_nan=True)


def as_list(value: Any) -> list[Any]:
    """Flatten the results of a program."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in as_list(each)]
    return [value] if isinstance(value, int | float | tt.Tensor) else [hash(value)]
