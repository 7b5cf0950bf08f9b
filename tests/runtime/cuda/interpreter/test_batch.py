"""Programs that run as one batch leave the bytes that they leave one after the other."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import triten as tt
from triten.runtime.cuda.interpreter import batch, semantics

pytestmark = pytest.mark.interpreter


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + row * n + column, mask=column < n, other=-float("inf"))
    e = tl.exp(a - tl.max(a, 0))
    tl.store(out + row * n + column, e / tl.sum(e, 0), mask=column < n)


@triton.jit
def matmul(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = min(pid // 2, 5) * BLOCK + tl.arange(0, BLOCK)
    columns = (pid % 2) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, 32, BLOCK):
        inner = k + tl.arange(0, BLOCK)
        a = tl.load(x + (rows % n)[:, None] * 32 + inner[None, :])
        b = tl.load(x + inner[:, None] * 32 + columns[None, :])
        total = tl.dot(a, b.T.T, total, input_precision="ieee")
    tl.store(out + rows[:, None] * 32 + columns[None, :], tl.trans(total).T, mask=(rows < n)[:, None])


@triton.jit
def shapes(x, out, n, BLOCK: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + pid * BLOCK + i)
    left, right = tl.split(tl.reshape(tl.sort(a), (BLOCK // 2, 2)))
    joined = tl.ravel(tl.join(right * pid, left))
    place = tl.argmax(joined, 0)
    gathered = tl.gather(a, (i + pid) % BLOCK, 0)
    counts = tl.histogram((joined > 0).to(tl.int32) + (i & pid), BLOCK)
    square = tl.reshape(tl.cumsum(joined, 0, reverse=True), (2, BLOCK // 2))
    flat = tl.ravel(tl.permute(square, (1, 0))) + tl.sum(square) + tl.max(tl.ravel(square), 0)
    first, second = tl.split(tl.join(place, pid))
    tl.store(out + pid * BLOCK + i, flat + gathered * counts + tl.rand(3, i + pid) + first - second)


@triton.jit
def in_place(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i) * 2 + tl.load(x + i))


@triton.jit
def last_store_wins(x, out, n, BLOCK: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + i * 2, pid)
    tl.store(out + i + pid % 3, -pid)
    tl.store(out + 3, 0.5)


@triton.jit
def persistent(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for tile in tl.range(tl.program_id(0), n, tl.num_programs(0)):
        tl.store(out + tile * BLOCK + i, tl.load(x + tile * BLOCK + i) * tile)


@triton.jit
def by_descriptor(x, out, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [24, 32], [32, 1], [4, BLOCK])
    result = tl.make_tensor_descriptor(out, [24, 32], [32, 1], [4, BLOCK])
    row = tl.program_id(0) * 2
    result.store([row, 0], source.load([row + 1, BLOCK]) + row)


@triton.jit
def diverging(x, out, n, BLOCK: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, BLOCK)
    a = tl.load(x + pid * BLOCK + i)
    if pid % 2 == 0:
        a = -a
    tl.store(out + pid * BLOCK + i, a if pid < 3 else a * 2)


@triton.jit
def first_differs(x, out, n, BLOCK: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(out + i, 7.0)
    else:
        tl.store(out + pid * BLOCK + i, pid)


@triton.jit
def chained(x, out, n, BLOCK: tl.constexpr):
    """Each program loads what the one before has stored."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i + BLOCK, tl.load(out + i) + 1, mask=i + BLOCK < n * BLOCK)


@triton.jit
def reread(x, out, n, BLOCK: tl.constexpr):
    """Each program loads what it has stored."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + 1)
    tl.store(out + i, tl.load(out + i) * 2)


@triton.jit
def in_place_backwards(x, out, n, BLOCK: tl.constexpr):
    """Each program updates what lies below that of the program before it."""
    i = (n - 1 - tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i) * 2 + tl.load(x + i))


@triton.jit
def waiting(x, out, n, BLOCK: tl.constexpr):
    """Each program waits for what it has stored."""
    flag = out + tl.program_id(0)
    tl.store(flag, 1.0)
    while tl.load(flag) == 0:
        pass


@triton.jit
def by_atomics(x, out, n, BLOCK: tl.constexpr):
    place = tl.atomic_add(out, 1.0)
    tl.store(out + 1 + tl.program_id(0), place)


BATCHED = [softmax, matmul, shapes, in_place, in_place_backwards, last_store_wins, persistent, by_descriptor]
ONE_BY_ONE = [diverging, chained, reread, waiting, by_atomics]
PARTLY = [first_differs]
PROGRAMS, BLOCK = 12, 16


@pytest.fixture
def batches(monkeypatch):
    """Record the sizes of executed batches, negative for those that ran again one program at a time."""
    sizes = []
    run = semantics.ProgramRunner._run_batch

    def counted(self, function, arguments, of):
        done = run(self, function, arguments, of)
        sizes.append(of.count if done else -of.count)
        return done

    monkeypatch.setattr(semantics.ProgramRunner, "_run_batch", counted)
    return sizes


def run(kernel, programs=PROGRAMS):
    numbers = np.random.default_rng(0).standard_normal((48, 32)).astype(np.float32)
    x, out = tt.from_numpy(numbers).cuda(), tt.zeros(48, 32, device="cuda")
    kernel[(programs,)](x, out, PROGRAMS, BLOCK=BLOCK)
    return out.cpu().numpy()


@pytest.mark.parametrize("kernel", BATCHED + PARTLY + ONE_BY_ONE, ids=lambda kernel: kernel.__name__)
def test_a_batch_leaves_the_same_bytes(kernel, batches, monkeypatch):
    found = run(kernel)
    if kernel in BATCHED:
        assert batches == [4, 8]
    elif kernel in PARTLY:
        assert batches == [-4, 4, 4]
    else:
        assert batches == [-4, -4]
    monkeypatch.setattr(semantics, "FIRST_SIZE", 1)
    np.testing.assert_array_equal(found.view(np.int32), run(kernel).view(np.int32))
    assert found.any()


def test_a_chain_of_programs_sees_each_before_it():
    assert run(chained).ravel()[: PROGRAMS * BLOCK : BLOCK].tolist() == list(range(PROGRAMS))


@pytest.mark.parametrize("limit", ["MAX_LANES", "MAX_RECORDED_BYTES"])
def test_the_memory_of_a_batch_is_bounded(limit, batches, monkeypatch):
    expected = run(in_place)
    del batches[:]
    if limit == "MAX_LANES":
        monkeypatch.setattr(semantics, "MAX_LANES", 3 * BLOCK)
    else:
        monkeypatch.setattr(batch, "MAX_RECORDED_BYTES", 2 * BLOCK)
    np.testing.assert_array_equal(run(in_place), expected)
    assert batches == ([4, 3, 3, 2] if limit == "MAX_LANES" else [-4, -4])


@triton.jit
def beyond(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * 100 + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


def test_a_fault_names_its_program_and_earlier_ones_have_stored():
    x, out = tt.ones(768, device="cuda"), tt.zeros(768, device="cuda")
    beyond[(PROGRAMS,)](x, out, PROGRAMS, BLOCK=BLOCK)
    with pytest.raises(RuntimeError, match=re.escape("program (8, 0, 0): load of float32")):
        tt.cuda.synchronize()
    assert out.sum().item() == 8 * BLOCK


@triton.jit
def printing(x, out, n, BLOCK: tl.constexpr):
    tl.device_print("row", tl.program_id(1) * 10 + tl.program_id(0))


def test_programs_print_in_their_order(capsys):
    printing[(2, 3)](None, None, 1, BLOCK=1)
    tt.cuda.synchronize()
    numbers = [int(found) for found in re.findall(r"\[(\d+)\]", capsys.readouterr().out)]
    assert numbers == [0, 1, 10, 11, 20, 21]
