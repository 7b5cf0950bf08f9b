"""Faults that kernels find in their input are asynchronous, and the next wait raises each once."""

import ctypes
import gc
import threading

import pytest

import triten as tt
import triten.nn.functional as F
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.faults import BLOCK_GROUPS, GROUP, Fault, FaultBlock, fault_flags, faults_of

LATER = r"found by a kernel on cuda:0 that an earlier call launched; with CUDA_LAUNCH_BLOCKING=1"


def cuda(*values, device="cuda"):
    return tt.tensor(values, device=device)


def raised_by(*work):
    """Return the message of the error that the last piece of work raises; the others raise none."""
    for each in work[:-1]:
        each()
    with pytest.raises((IndexError, RuntimeError)) as error:
        work[-1]()
    return str(error.value)


X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
CALLS = {
    "index": (lambda x, i: x[i], IndexError, r"index.*\(\): .*for dimension 0 with size 2"),
    "index two": (lambda x, i: x[i - i, i], IndexError, r"index.*\(\): .* 1 with size 3"),
    "index_select": (lambda x, i: x.index_select(1, i), IndexError, r"index_select.*\(\): .* 1 with size 3"),
    "gather": (lambda x, i: x.gather(1, i[None]), RuntimeError, r"gather.*\(\): .* 1 with size 3"),
    "take": (lambda x, i: x.take(i), IndexError, r"take.*\(\): .*with size 6"),
    "embedding": (lambda x, i: F.embedding(i, x), IndexError, r"embedding.*\(\): .*for dimension 0 with size 2"),
    "index_put": (lambda x, i: x.index_put((i,), x[0]), IndexError, r"index_put.*\(\): .*for dimension 0 with size 2"),
    "index_add": (lambda x, i: x.index_add(0, i, x[:1]), IndexError, r"index_add.*\(\): .*for dimension 0 with size 2"),
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:1]), IndexError, "for dimension 0 with size 2"),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), IndexError, "for dimension 0 with size 2"),
    "scatter": (lambda x, i: x.scatter(1, i[None], x), RuntimeError, r"scatter.*\(\): .* 1 with size 3"),
    "scatter_add": (lambda x, i: x.scatter_add(1, i[None], x), RuntimeError, r"scatter.*\(\): .* 1 with size 3"),
    "nll_loss": (lambda x, i: F.nll_loss(x[:1], i), IndexError, "nll_loss.*out of bounds for 3 classes"),
    "cross_entropy": (lambda x, i: F.cross_entropy(x[:1], i), IndexError, "out of bounds for 3 classes"),
    "embedding_bag": (lambda x, i: F.embedding_bag(i[None], x), RuntimeError, "embedding_bag.*with size 2"),
    "searchsorted": (
        lambda x, i: tt.searchsorted(x[0], x[1], sorter=tt.cat([i, i, i])),
        RuntimeError,
        "searchsorted.*for dimension 0 with size 3",
    ),
    "repeat_interleave": (
        lambda x, i: tt.repeat_interleave(i, output_size=8),
        RuntimeError,
        r"repeat_interleave\(\): .*allocated size must match",
    ),
    "repeat_interleave by": (
        lambda x, i: x.repeat_interleave(-i, 0, output_size=8),
        RuntimeError,
        "repeats can not be negative",
    ),
    "one_hot": (lambda x, i: F.one_hot(i, 4), RuntimeError, "for dimension 1 with size 4"),
    "max_unpool2d": (
        lambda x, i: F.max_unpool2d(x[None, None], i.expand(1, 1, 2, 3), 1, output_size=(2, 3)),
        RuntimeError,
        "with size 6",
    ),
    "bernoulli": (lambda x, i: tt.bernoulli(x), RuntimeError, "p_in >= 0 && p_in <= 1"),
    "multinomial": (lambda x, i: tt.multinomial(-x, 1), RuntimeError, "either `inf`, `nan` or element < 0"),
    "multinomial of zeros": (lambda x, i: tt.multinomial(x * 0, 1), RuntimeError, "sum of probabilities <= 0"),
    "normal": (lambda x, i: tt.normal(x, -x), RuntimeError, "all elements of std >= 0.0"),
    "poisson": (lambda x, i: tt.poisson(-x), RuntimeError, "expected rate to be non-negative"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_who_waits_next_gets_the_error_of_the_operator_once_and_the_device_works_on(call):
    work, kind, message = CALLS[call]
    x, i = cuda(*X), cuda(9)
    out = work(x, i)
    with pytest.raises(kind, match=f"{message}.*{LATER}"):
        tt.cuda.synchronize()
    tt.cuda.synchronize()
    assert x.tolist() == X
    # The output of the faulty call has memory of its own and stays readable.
    assert out.cpu().shape == out.shape


@pytest.mark.parametrize("call", CALLS)
def test_under_launch_blocking_the_call_itself_raises(call, launch_blocking):
    work, kind, _ = CALLS[call]
    x, i = cuda(*X), cuda(9)
    with pytest.raises(kind) as error:
        work(x, i)
    assert "earlier call" not in str(error.value)
    tt.cuda.synchronize()
    assert x.tolist() == X


def test_the_error_of_the_call_itself_has_the_wrong_index(launch_blocking):
    x = cuda(1.0, 2.0)
    with pytest.raises(IndexError, match=r"^index 5 is out of bounds for dimension 0 with size 2$"):
        x[cuda(5)]
    with pytest.raises(IndexError, match=r"^index -3 is out of bounds for dimension 0 with size 2$"):
        x[cuda(-3)]
    with pytest.raises(IndexError, match=r"^Target 7 is out of bounds\.$"):
        F.nll_loss(cuda(*X), cuda(0, 7))


@pytest.mark.parametrize("call", ["index_put", "index_add", "scatter"])
def test_under_launch_blocking_nothing_is_changed_in_place(call, launch_blocking):
    x, i = cuda(*X), cuda(9)
    with pytest.raises((IndexError, RuntimeError)):
        {
            "index_put": lambda: x.index_put_((i,), x[0] + 1),
            "index_add": lambda: x.index_add_(0, i, x[:1]),
            "scatter": lambda: x.scatter_(1, i[None], 0.0),
        }[call]()
    assert x.tolist() == X


def test_elements_at_wrong_indices_are_zeros():
    x = cuda(*X)
    several = cuda(0, 1, 9)
    for work, rest in (
        (lambda: x.take(several), [1.0, 2.0]),
        (lambda: x.flatten().index_select(0, several), [1.0, 2.0]),
        (lambda: x.flatten().expand(2, 6)[1].gather(0, several), [1.0, 2.0]),
        (lambda: x.T.index_select(1, cuda(0, 0, 9))[0].contiguous(), [1.0, 1.0]),
    ):
        found = work()
        with pytest.raises((IndexError, RuntimeError)):
            tt.cuda.synchronize()
        assert found.tolist() == [*rest, 0.0]
    wide = tt.ones(3, 100, device="cuda")
    found = F.embedding(several[1:], wide)
    with pytest.raises(IndexError):
        tt.cuda.synchronize()
    assert found.sum(1).tolist() == [100.0, 0.0]


@pytest.mark.parametrize(
    "work",
    [
        lambda x, i: x.index_add(0, i, tt.ones(1, 3, device="cuda")),
        lambda x, i: x.scatter_add(0, i[:, None], tt.ones(1, 3, device="cuda")),
    ],
    ids=["index_add", "scatter_add"],
)
def test_nothing_is_reached_through_an_index_of_an_empty_dimension(work):
    out = work(tt.empty(0, 3, device="cuda"), cuda(0))
    with pytest.raises((IndexError, RuntimeError), match="with size 0"):
        tt.cuda.synchronize()
    assert out.sum().item() == 0.0


def test_a_table_without_rows_is_refused_before_anything_runs():
    with pytest.raises(RuntimeError, match="should be positive"):
        tt.empty(0, 3, device="cuda").index_select(0, cuda(0))
    with pytest.raises(RuntimeError, match="at least one row"):
        F.embedding(cuda(0), tt.empty(0, 3, device="cuda"))
    tt.cuda.synchronize()


WAITS = {
    "synchronize": lambda x: tt.cuda.synchronize(),
    "stream": lambda x: tt.cuda.current_stream().synchronize(),
    "event": lambda x: tt.cuda.current_stream().record_event().synchronize(),
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "numpy": lambda x: x.numpy(force=True),
    "repr": lambda x: repr(x),
    "copy to the host": lambda x: tt.empty(2, 3).copy_(x),
    "copy from the host": lambda x: x.copy_(tt.ones(2, 3)),
    "shape of values": lambda x: x.nonzero(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_every_wait_looks(wait):
    x = cuda(*X)
    x[cuda(9)]
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 2"):
        WAITS[wait](x)
    WAITS[wait](x)


def test_a_later_call_that_checks_its_input_looks_without_waiting():
    x, wrong, right = cuda(*X), cuda(9), cuda(1)
    x[wrong]
    stream = tt.cuda.current_stream()
    x[right]  # nothing has run yet: there is nothing to hear of
    while not stream.query():
        pass
    x + x  # an operator without checks does not look
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 2"):
        x.gather(1, right[None])
    assert x[right].tolist() == [X[1]]


def test_the_first_of_several_faults_is_raised_and_the_others_are_notes():
    x, i = cuda(*X), cuda(9)
    x[i], x.gather(1, i[None]), x[i]
    with pytest.raises((IndexError, RuntimeError)) as error:
        tt.cuda.synchronize()
    told = [str(error.value), *error.value.__notes__]
    assert len(told) == 2
    assert sum("gather(): index out of bounds for dimension 1 with size 3" in text for text in told) == 1
    assert sum("for dimension 0 with size 2" in text for text in told) == 1
    tt.cuda.synchronize()


def test_devices_have_faults_of_their_own():
    first, second = cuda(*X, device="cuda:0"), cuda(*X, device="cuda:1")
    second[cuda(9, device="cuda:1")]
    assert first[cuda(1)].tolist() == [X[1]]
    tt.cuda.synchronize(0)
    with pytest.raises(IndexError, match="found by a kernel on cuda:1"):
        tt.cuda.synchronize(1)
    first[cuda(9)]
    tt.cuda.synchronize(1)
    with pytest.raises(IndexError, match="found by a kernel on cuda:0"):
        tt.cuda.synchronize(0)


def test_another_thread_hears_of_it_and_only_one_of_them():
    x = cuda(*X)
    x[cuda(9)]
    errors = []

    def wait():
        try:
            tt.cuda.synchronize()
        except IndexError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1
    tt.cuda.synchronize()


def test_work_of_another_stream_is_reported_too():
    x, i, stream = cuda(*X), cuda(9), tt.cuda.Stream()
    tt.cuda.synchronize()
    with tt.cuda.stream(stream):
        x[i]
    tt.cuda.current_stream().synchronize()  # does not wait for that one
    with pytest.raises(IndexError):
        stream.synchronize()


def test_a_non_blocking_copy_does_not_wait_for_the_news():
    x = cuda(*X)
    host = tt.empty(2, 3, pin_memory=True)
    x[cuda(9)]
    host.copy_(x, non_blocking=True)
    with pytest.raises(IndexError):
        tt.cuda.synchronize()
    assert host.tolist() == X


def test_the_backward_pass_reports_too():
    weight = tt.ones(3, 4, device="cuda", requires_grad=True)
    F.embedding(cuda(1, 5), weight).sum().backward()
    with pytest.raises(IndexError, match="for dimension 0 with size 3"):
        tt.cuda.synchronize()
    assert weight.grad.shape == (3, 4)


def fault(name):
    return Fault(name, ValueError, "wrong")


def raise_word(address):
    """Set the fault word, as a kernel does that finds a fault."""
    ctypes.c_int32.from_address(address).value = 1


class TestWords:
    """Fault words of plans in mapped memory."""

    def test_plans_with_the_same_faults_share_their_words(self):
        assert fault_flags(0, [fault("a")]) is (kept := fault_flags(0, [fault("a")]))
        assert fault_flags(0, [fault("b")]).address != kept.address
        assert fault_flags(1, [fault("a")]).address != kept.address

    def test_words_begin_at_multiples_of_16_bytes(self):
        held = [fault_flags(0, [fault(f"{n} {i}") for i in range(n)]) for n in range(1, 10)]
        spans = [(each.address, each.address + 4 * each.count) for each in held]
        assert all(start % 16 == 0 for start, _ in spans)
        assert all(a_end <= b or b_end <= a for a, a_end in spans for b, b_end in spans if a != b)

    def test_as_many_plans_as_one_likes(self):
        held = [fault_flags(1, [fault(f"many {i}")]) for i in range(2 * BLOCK_GROUPS + 3)]
        assert len({each.address for each in held}) == len(held)
        faults_of(driver(), 1).check()
        raise_word(held[-1].address)
        with pytest.raises(ValueError, match=f"many {2 * BLOCK_GROUPS + 2}"):
            faults_of(driver(), 1).check()

    def test_words_of_plans_that_are_gone_are_used_again(self):
        words = faults_of(driver(), 1)
        for round_ in range(6):
            held = [fault_flags(1, [fault(f"round {round_} {i}")]) for i in range(BLOCK_GROUPS)]
            if round_ == 2:
                blocks = len(words.blocks)
            del held
            gc.collect()
        assert len(words.blocks) == blocks

    def test_a_fault_of_a_plan_that_is_gone_is_reported_before_its_words_are_used_again(self):
        words = faults_of(driver(), 1)
        made = fault_flags(1, [fault("gone")])
        raise_word(made.address)
        del made
        gc.collect()
        with pytest.raises(ValueError, match=r"gone\(\): wrong"):
            words.check()

    def test_a_process_without_its_devices_looks_at_memory_of_its_own(self):
        block = FaultBlock(driver().malloc_mapped(BLOCK_GROUPS * GROUP * 4))
        assert block.take(1) == 0
        block.forget()
        raise_word(block.address)
        assert block.watched.tobytes() == block.clear
        assert not block.lower(0)
        driver().free_host(block.address)

    def test_a_group_is_as_many_words_as_an_operator_needs(self):
        made = fault_flags(1, [fault(f"{i} of many") for i in range(GROUP + 1)])
        raise_word(made.address + 4 * GROUP)
        with pytest.raises(ValueError, match="4 of many"):
            made.begin()
        assert made.begin() == made.address


def test_wrong_repeats_are_no_wrong_indices():
    # Its flags may stand before those of the repeats, and the first that is up is raised.
    x, i = cuda(*X), cuda(9)
    x.index_select(0, tt.zeros(8, dtype=tt.int64, device="cuda"))
    x.repeat_interleave(-i, 0, output_size=8)
    with pytest.raises(RuntimeError, match="repeats can not be negative") as error:
        tt.cuda.synchronize()
    assert not getattr(error.value, "__notes__", [])
