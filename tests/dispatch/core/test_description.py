"""`dump()` names the kernel of each key, and the reason."""

from collections.abc import Iterator

import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.runtime.dispatch_key import RUNTIME, BackendComponent

DISPATCHER = Dispatcher.singleton()
NAME = "t_dump::f"


@pytest.fixture(autouse=True)
def defined() -> Iterator[None]:
    with DISPATCHER.register_def(f"{NAME}(Tensor x) -> Tensor", "f.py:1", ("pointwise", "core")):
        yield


def kernel(label: str) -> KernelFunction:
    return KernelFunction(lambda x: x, source=label)


def sections(name: str = NAME) -> tuple[str, list[str], dict[str, str]]:
    """Return the head of a dump, its kernel lines, and its answers by runtime key."""
    text = DISPATCHER.dump(name)
    head, _, rest = text.partition("\nkernels:")
    registered, _, table = rest.partition("\ndispatch table:\n")
    answers: dict[str, str] = {}
    rows = table.replace("\n      ", " ").split("\n")
    for row in rows:
        names, _, answer = row.strip().partition(": ")
        for each in names.split(", "):
            spellings = [each]
            if each.startswith("every "):
                spellings = [each[6:].replace("<backend>", backend.name) for backend in BackendComponent]
            for spelling in spellings:
                assert spelling not in answers
                answers[spelling] = answer
    return head, [line.strip() for line in registered.split("\n") if line.strip()], answers


def test_the_head() -> None:
    head, registered, _ = sections()
    assert head.split("\n") == [
        f"name: {NAME}",
        f"schema: {NAME}(Tensor x) -> Tensor",
        "defined: f.py:1",
        "tags: core, pointwise",
    ]
    assert registered == ["none"]


def test_every_runtime_key_has_one_answer() -> None:
    with DISPATCHER.register_impl(NAME, "CPU", kernel("cpu.py:2")):
        assert set(sections()[2]) == {key.name for key in RUNTIME.values()}


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_the_last_kernel_is_active() -> None:
    handles = [DISPATCHER.register_impl(NAME, "CPU", kernel(f"cpu.py:{i}")) for i in range(3)]
    handles.append(DISPATCHER.register_impl(NAME, "Autograd", kernel("grad.py:1")))
    _, registered, answers = sections()
    assert registered == [
        "CPU: cpu.py:2",
        "CPU (inactive): cpu.py:1",
        "CPU (inactive): cpu.py:0",
        "Autograd: grad.py:1",
    ]
    assert answers["CPU"] == "own, cpu.py:2"
    for handle in handles:
        handle.close()


def test_reasons() -> None:
    keys = ["CPU", "CompositeExplicitAutograd", "Autograd", "AutogradXLA"]
    handles = [DISPATCHER.register_impl(NAME, key, kernel(f"{key}.py")) for key in keys]
    handles.append(DISPATCHER.register_impl(NAME, "Tracer", KernelFunction.fallthrough("tracer.py")))
    answers = sections()[2]
    assert answers["CPU"] == "own, CPU.py"
    assert (
        answers["CUDA"]
        == answers["QuantizedMPS"]
        == "alias CompositeExplicitAutograd, CompositeExplicitAutograd.py"
    )
    assert answers["AutogradCPU"] == answers["AutogradOther"] == "alias Autograd, Autograd.py"
    assert answers["AutogradXLA"] == "own, AutogradXLA.py"
    assert answers["Tracer"] == "own, fallthrough, tracer.py"
    assert answers["Batched"] == "backend fallback, fallthrough, functionality without kernel"
    for handle in handles:
        handle.close()
    with DISPATCHER.register_fallback("IPU", kernel("ipu.py")):
        answers = sections()[2]
        assert answers["IPU"] == "backend fallback, ipu.py"
        assert answers["VE"] == "missing"
        assert answers["AutogradVE"] == "backend fallback, autograd fallback"


def test_the_answers_are_those_of_calls() -> None:
    keys = ["CPU", "SparseCUDA", "CompositeImplicitAutograd", "AutocastCUDA", "AutogradOther"]
    handles = [DISPATCHER.register_impl(NAME, key, kernel(f"{key}.py")) for key in keys]
    op, answers = DISPATCHER.find_schema_or_throw(NAME), sections()[2]
    for key in RUNTIME.values():
        served = op.kernel_for(key)
        if served is None:
            assert answers[key.name] == "missing"
        else:
            assert answers[key.name].endswith(f", {served.source}")
    for handle in handles:
        handle.close()


def test_an_ambiguity_is_said_and_not_raised() -> None:
    with (
        DISPATCHER.register_impl(NAME, "CompositeImplicitAutograd", kernel("composite.py")),
        DISPATCHER.register_impl(NAME, "SparseCPU", kernel("sparse.py")),
    ):
        assert sections()[2]["AutogradOther"].startswith("ambiguous")


def test_keys_of_one_answer_share_a_line_that_is_readable() -> None:
    lines = tt.ops.aten.relu.default.dump().split("\n")
    assert "  CPU, CUDA, Meta: own, structured relu_stub" in lines
    assert (
        "  AutogradOther, every Autograd<backend>: alias Autograd, triten.dispatch.generated.autograd.pointwise"
        in lines
    )
    assert max(map(len, lines)) <= 120
    assert len(lines) < 25


def test_undefined_and_unknown_operators() -> None:
    with DISPATCHER.register_impl("t_dump::late", "CPU", kernel("late.py")):
        head, registered, answers = sections("t_dump::late")
        assert head.split("\n") == ["name: t_dump::late", "schema: none, it is not defined"]
        assert registered == ["CPU: late.py"]
        assert answers["CPU"] == "own, late.py"
    with pytest.raises(RuntimeError, match="Could not find operator t_dump::late"):
        DISPATCHER.dump("t_dump::late")
