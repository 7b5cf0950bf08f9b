"""Kernel launches of layers, losses and their gradients do not grow beyond a table."""

import pytest

import triten as tt
import triten.nn.functional as F
from triten.tests.runtime.cuda.standin.made_up_kernels import settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)


def made(*sizes, dtype=tt.float32, requires_grad=True):
    return tt.ones(*sizes, device="cuda", dtype=dtype, requires_grad=requires_grad)


def labels(*sizes, fill=1):
    return tt.full(sizes, fill, device="cuda", dtype=tt.int64)


def gradients(loss, inputs):
    """Return a program of the backward pass alone, which keeps the graph."""
    change = tt.ones_like(loss)
    return lambda: tt.autograd.grad(loss, inputs, change, retain_graph=True)


def layer_norm(rows, n):
    x, w, b = made(rows, n), made(n), made(n)
    return lambda: F.layer_norm(x, (n,), w, b), [x, w, b]


def rms_norm(rows, n):
    x, w = made(rows, n), made(n)
    return lambda: F.rms_norm(x, (n,), w), [x, w]


def linear(rows, n):
    x, w, b = made(rows, n), made(n, n), made(n)
    return lambda: F.linear(x, w, b), [x, w, b]


def cross_entropy(rows, classes, **options):
    x, target = made(rows, classes), labels(rows)
    return lambda: F.cross_entropy(x, target, **options), [x]


def embedding(rows, n, **options):
    table, indices = made(1000, n), labels(rows)
    return lambda: F.embedding(indices, table, **options), [table]


PROGRAMS = {
    "layer_norm": lambda: layer_norm(4096, 1024),
    "rms_norm": lambda: rms_norm(4096, 1024),
    "linear": lambda: linear(512, 512),
    "cross_entropy": lambda: cross_entropy(1024, 1000),
    "cross_entropy smoothed": lambda: cross_entropy(1024, 1000, label_smoothing=0.1),
    "cross_entropy each": lambda: cross_entropy(1024, 1000, reduction="none"),
    "embedding": lambda: embedding(512, 256),
    "embedding of many": lambda: embedding(1 << 14, 256),
}


@WITHOUT_CODE
@pytest.mark.parametrize(
    ("program", "forward", "backward"),
    [
        ("layer_norm", 1, 2),
        ("rms_norm", 1, 2),
        ("linear", 1, 3),
        ("cross_entropy", 1, 1),
        ("cross_entropy smoothed", 1, 1),
        ("cross_entropy each", 1, 1),
        ("embedding", 1, 3),
        ("embedding of many", 1, 4),
    ],
)
def test_a_layer_takes_as_few_launches_as_the_table_says(standin, program, forward, backward):
    without_code()
    call, inputs = PROGRAMS[program]()
    kernels = [c["function"] for c in settled(standin, call) if c.name.startswith("cuLaunchKernel")]
    of_gradients = settled(standin, gradients(call(), inputs))
    of_gradients = [c["function"] for c in of_gradients if c.name.startswith("cuLaunchKernel")]
    assert (len(kernels), len(of_gradients)) == (forward, backward), (kernels, of_gradients)


@WITHOUT_CODE
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_feed_forward_layer_without_gradients_is_two_products(standin, activation):
    without_code()
    layer = tt.nn.TransformerEncoderLayer(128, 4, 256, activation=activation, device="cuda").eval()
    x = made(8, 64, 128, requires_grad=False)
    with tt.no_grad():
        calls = settled(standin, lambda: layer._ff_block(x))
    assert [c["function"] for c in calls] == ["matmul", "matmul"]
    calls = settled(standin, lambda: layer._ff_block(x))
    assert len(calls) == 3, "with a gradient the activation's argument is kept"
