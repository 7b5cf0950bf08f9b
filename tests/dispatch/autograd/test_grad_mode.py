"""no_grad, enable_grad, set_grad_enabled and inference_mode: nested, as decorators, thread-local."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.runtime import grad_mode
from triten.runtime.local_dispatch_key_set import modes


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    assert tt.is_grad_enabled()
    assert not tt.is_inference_mode_enabled()
    assert grad_mode.grad_disabled == grad_mode.inference_enabled == modes == []


def records() -> bool:
    """Return True if an operator records now."""
    return bool((tt.ones(1).requires_grad_() + 1).requires_grad)


def test_recording_by_default() -> None:
    assert tt.is_grad_enabled()
    assert records()


def test_no_grad() -> None:
    with tt.no_grad():
        assert not tt.is_grad_enabled()
        assert not records()
        assert tt.ones(1).requires_grad_().requires_grad
    assert records()


def test_nesting() -> None:
    with tt.no_grad():
        with tt.enable_grad():
            assert records()
            with tt.no_grad(), tt.no_grad():
                assert not records()
            assert records()
        assert not records()
    with tt.enable_grad():
        assert records()
    assert records()


def test_one_context_entered_again() -> None:
    context = tt.no_grad()
    with context:
        with context:
            assert not records()
        assert not records()
    assert records()
    with context:
        assert not records()


def test_an_exception_restores() -> None:
    for make in (tt.no_grad, tt.inference_mode, lambda: tt.set_grad_enabled(False)):
        with pytest.raises(KeyError), make():
            raise KeyError
        assert records()


@pytest.mark.parametrize("mode", [True, False])
def test_set_grad_enabled(mode: bool) -> None:
    with tt.set_grad_enabled(mode):
        assert records() is mode
    assert records()
    with tt.no_grad():
        with tt.set_grad_enabled(mode):
            assert records() is mode
        assert not records()


def test_set_grad_enabled_at_once() -> None:
    tt.set_grad_enabled(False)
    try:
        assert not records()
    finally:
        tt.set_grad_enabled(True)
    assert records()


@pytest.mark.parametrize(
    ("decorate", "expected"),
    [
        (tt.no_grad(), False),
        (tt.no_grad, False),
        (tt.enable_grad(), True),
        (tt.enable_grad, True),
        (tt.inference_mode(), False),
        (tt.inference_mode, False),
        (tt.inference_mode(False), True),
    ],
)
def test_decorators(decorate: Callable[..., Any], expected: bool) -> None:
    @decorate
    def work(depth: int, *, word: str) -> tuple[bool, str]:
        """Do the work."""
        return (records(), word) if depth == 0 else work(depth - 1, word=word)

    assert work(2, word="a") == (expected, "a")
    assert (work.__name__, work.__doc__) == ("work", "Do the work.")
    assert records()
    with tt.no_grad():
        assert work(0, word="b") == (expected, "b")
        assert not records()


def test_set_grad_enabled_as_a_decorator_sets_nothing_outside() -> None:
    @tt.set_grad_enabled(False)
    def work() -> bool:
        return records()

    assert records()
    assert not work()
    assert records()


def test_a_decorated_function_that_raises() -> None:
    @tt.no_grad()
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert records()


def test_inference_mode() -> None:
    w = tt.ones(1).requires_grad_()
    with tt.inference_mode():
        assert tt.is_inference_mode_enabled()
        assert not tt.is_grad_enabled()
        y = w + 1
        assert (y.requires_grad, y.is_inference()) == (False, True)
        with tt.inference_mode(False):
            assert not tt.is_inference_mode_enabled()
            z = w + 1
            assert (z.requires_grad, z.is_inference()) == (True, False)
        assert tt.is_inference_mode_enabled()
    assert not tt.is_inference_mode_enabled()
    assert not (w + 1).is_inference()


def test_nested_inference_modes() -> None:
    with tt.inference_mode():
        with tt.inference_mode():
            pass
        assert tt.ones(1).is_inference()


def test_threads_have_modes_of_their_own() -> None:
    entered, leave = threading.Event(), threading.Event()
    seen: list[bool] = []

    def other() -> None:
        seen.append(records())
        with tt.no_grad():
            seen.append(records())
            entered.set()
            leave.wait()
            seen.append(records())
        seen.append(records())

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    assert tt.is_grad_enabled()
    assert records()
    with tt.inference_mode():
        leave.set()
        thread.join()
        assert not records()
    assert seen == [True, False, False, True]


def test_many_threads_switching() -> None:
    problems: list[object] = []
    start = threading.Barrier(4)

    def work(mine: bool) -> None:
        start.wait()
        for _ in range(300):
            with tt.set_grad_enabled(mode=mine):
                if records() is not mine:
                    problems.append("grad")
            with tt.inference_mode(not mine):
                if tt.ones(1).is_inference() is mine:
                    problems.append("inference")

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems


def test_modes_end_with_their_thread() -> None:
    """End a thread inside no_grad; other threads are not affected."""

    def dies() -> None:
        context = tt.no_grad()
        context.__enter__()
        context.__exit__()

    thread = threading.Thread(target=dies)
    thread.start()
    thread.join()
    assert records()


def test_backward_inside_no_grad() -> None:
    w = tt.ones(2).requires_grad_()
    out = (w + 1).sum()
    with tt.no_grad():
        out.backward()
        assert not tt.is_grad_enabled()
    assert w.grad.tolist() == [1.0, 1.0]


def test_results_computed_without_grad_are_constants() -> None:
    w = tt.ones(2).requires_grad_()
    with tt.no_grad():
        c = w + 1
    (w + c).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("context", "reads", "inside"),
    [
        (tt.no_grad(), tt.is_grad_enabled, False),
        (tt.inference_mode(), tt.is_inference_mode_enabled, True),
    ],
)
def test_a_generator_function_has_the_mode_at_every_step(context: Any, reads: Any, inside: bool) -> None:
    closed = []

    @context
    def steps(first: str) -> Any:
        try:
            got = yield first, reads()
            try:
                yield got, reads()
            except KeyError as error:
                yield error.args[0], reads()
            return "end"
        finally:
            closed.append(reads())

    outside = reads()
    generator = steps("a")
    assert next(generator) == ("a", inside) and reads() is outside
    assert generator.send("b") == ("b", inside) and reads() is outside
    assert generator.throw(KeyError("c")) == ("c", inside) and reads() is outside
    with pytest.raises(StopIteration, match="end"):
        next(generator)
    early = steps("a")
    next(early)
    early.close()
    assert closed == [inside, inside] and reads() is outside


def test_one_set_grad_enabled_may_be_entered_again() -> None:
    with tt.enable_grad():
        context = tt.set_grad_enabled(False)
        assert not tt.is_grad_enabled()
        for _ in range(2):
            with context:
                assert not tt.is_grad_enabled()
            assert tt.is_grad_enabled()


@pytest.mark.parametrize(
    ("call", "requires_grad"),
    [
        (lambda x: x.view(6), False),
        (lambda x: x[0], False),
        (lambda x: x.unbind()[0], False),
        (lambda x: x.sin(), False),
        (lambda x: tt.cat([x, x]), False),
        (lambda x: x * 2, True),
        (lambda x: x.clone(), True),
        (lambda x: x.double(), True),
        (lambda x: x + tt.zeros(2, 3), True),
    ],
)
def test_inference_tensors_alone_are_not_recorded(call: Any, requires_grad: bool) -> None:
    with tt.inference_mode():
        x = tt.ones(2, 3, requires_grad=True)
    assert x.requires_grad and call(x).requires_grad == requires_grad


def test_a_decorated_class_warns_and_is_made_in_the_mode() -> None:
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated") as caught:

        @tt.no_grad()
        class Made:
            def __init__(self) -> None:
                self.enabled = tt.is_grad_enabled()

    assert caught[0].filename == __file__
    assert not Made().enabled
    assert tt.is_grad_enabled()
