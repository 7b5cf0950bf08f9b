"""The dispatcher: registrations and their removal, and the kernel of a key."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher, RegistrationHandle
from triten.dispatch.core.kernel_function import KernelFunction
from triten.dispatch.core.operator_entry import OperatorEntry

Key, KeySet = tt.DispatchKey, tt.DispatchKeySet
DISPATCHER = Dispatcher.singleton()
_numbers = itertools.count()
# Which of the tests overrides first, and so warns, depends on the order in which they run.
pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


class Operator:
    """New operator ``t::opN(Tensor x) -> Tensor``, whose kernels record their names in `calls`."""

    def __init__(self, schema: str = "(Tensor x) -> Tensor") -> None:
        self.name = f"t::op{next(_numbers)}"
        self.schema = self.name + schema
        self.calls: list[str] = []
        self.handles: list[RegistrationHandle] = []

    def define(self, source: str = "here") -> RegistrationHandle:
        self.handles.append(DISPATCHER.register_def(self.schema, source))
        return self.handles[-1]

    def kernel(self, label: str) -> KernelFunction:
        def call(x: Any) -> Any:
            self.calls.append(label)
            return tt.ones_like(x)

        return KernelFunction(call, source=label)

    def impl(self, key: str, kernel: KernelFunction | None = None) -> RegistrationHandle:
        self.handles.append(DISPATCHER.register_impl(self.name, key, kernel or self.kernel(key)))
        return self.handles[-1]

    @property
    def entry(self) -> OperatorEntry:
        return DISPATCHER.find_schema_or_throw(self.name)

    def chosen(self, *keys: str) -> str:
        """Return the label of the kernel that a set of these keys selects."""
        return self.entry.lookup(KeySet(getattr(Key, k) for k in keys).raw_repr()).source


@pytest.fixture
def op() -> Iterator[Operator]:
    made = Operator()
    made.define()
    yield made
    for handle in made.handles:
        handle.close()
    assert DISPATCHER.find_op(made.name) is None


@pytest.fixture
def loose() -> Iterator[Operator]:
    """Yield an operator that is not defined yet."""
    made = Operator()
    yield made
    for handle in made.handles:
        handle.close()
    assert DISPATCHER.find_op(made.name) is None


# --- registration


def test_define_and_find(op: Operator) -> None:
    assert DISPATCHER.find_op(op.name) is DISPATCHER.find_schema(op.name) is op.entry
    assert str(op.entry.schema) == op.schema
    assert op.name in DISPATCHER.get_all_op_names()
    assert DISPATCHER.find_op("t::nothing") is None


def test_a_second_definition_names_both_places(op: Operator) -> None:
    with pytest.raises(RuntimeError, match="First registered at here, again at there"):
        DISPATCHER.register_def(op.schema, "there")
    assert op.entry.source == "here"


def test_an_impl_may_come_before_the_definition(loose: Operator) -> None:
    loose.impl("CPU")
    assert DISPATCHER.find_op(loose.name) is not None
    assert DISPATCHER.find_schema(loose.name) is None
    with pytest.raises(RuntimeError, match=r"Could not find schema for .*kernels are registered"):
        DISPATCHER.find_schema_or_throw(loose.name)
    loose.define()
    loose.entry.call(tt.ones(2))
    assert loose.calls == ["CPU"]


def test_a_name_without_schema(loose: Operator) -> None:
    loose.handles.append(DISPATCHER.register_name(loose.name))
    entry = DISPATCHER.find_op(loose.name)
    assert entry is not None
    assert DISPATCHER.find_schema(loose.name) is None
    with pytest.raises(RuntimeError, match=r"Could not find schema for .*the name is registered"):
        DISPATCHER.find_schema_or_throw(loose.name)
    with pytest.raises(RuntimeError, match="define it first"):
        entry.schema  # noqa: B018 - reading it raises
    loose.define().close()
    assert DISPATCHER.find_op(loose.name) is not None
    assert DISPATCHER.find_schema(loose.name) is None


def test_unknown_names() -> None:
    with pytest.raises(RuntimeError, match=r"Could not find schema for t::nothing$"):
        DISPATCHER.find_schema_or_throw("t::nothing")


def test_registrations_for_a_key(op: Operator) -> None:
    op.impl("XLA")
    assert op.name in DISPATCHER.get_registrations_for_dispatch_key("XLA")
    assert op.name not in DISPATCHER.get_registrations_for_dispatch_key(Key.CPU)
    assert op.name in DISPATCHER.get_registrations_for_dispatch_key()
    assert "aten::add.Tensor" in DISPATCHER.get_registrations_for_dispatch_key("CPU")


def test_an_unknown_key_is_refused(op: Operator) -> None:
    with pytest.raises(RuntimeError, match="could not parse dispatch key: GPU"):
        op.impl("GPU")


# --- undoing


def test_a_handle_undoes_a_definition(loose: Operator) -> None:
    handle = loose.define()
    handle.close()
    assert DISPATCHER.find_op(loose.name) is None
    assert loose.name not in DISPATCHER.get_all_op_names()
    loose.define("elsewhere")
    assert loose.entry.source == "elsewhere"
    handle.close()
    assert loose.entry.source == "elsewhere"


def test_a_handle_undoes_a_kernel(op: Operator) -> None:
    with op.impl("CPU"):
        op.entry.call(tt.ones(1))
    with pytest.raises(NotImplementedError):
        op.entry.call(tt.ones(1))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_kernels_of_one_key_undone_in_any_order(op: Operator, order: tuple[int, ...]) -> None:
    """Choose the last registered of the remaining kernels."""
    handles = [op.impl("CPU", op.kernel(str(i))) for i in range(3)]
    left = [0, 1, 2]
    assert op.chosen("CPU") == "2"
    for i in order:
        handles[i].close()
        handles[i].close()
        left.remove(i)
        if left:
            assert op.chosen("CPU") == str(max(left))
            op.entry.call(tt.ones(1))
            assert op.calls[-1] == str(max(left))
    with pytest.raises(NotImplementedError):
        op.chosen("CPU")


def test_the_same_kernel_under_two_keys(op: Operator) -> None:
    kernel = op.kernel("shared")
    first = op.impl("CPU", kernel)
    op.impl("Meta", kernel)
    first.close()
    assert op.chosen("Meta") == "shared"
    with pytest.raises(NotImplementedError):
        op.chosen("CPU")


def test_definition_undone_before_its_kernels(loose: Operator) -> None:
    definition = loose.define()
    kernel = loose.impl("CPU")
    definition.close()
    assert DISPATCHER.find_schema(loose.name) is None
    assert DISPATCHER.find_op(loose.name) is not None
    loose.define("again")
    loose.entry.call(tt.ones(1))
    assert loose.calls == ["CPU"]
    kernel.close()


def test_a_later_registration_reaches_calls_that_were_made_before(op: Operator) -> None:
    x = tt.ones(1)
    op.impl("CPU", op.kernel("old"))
    op.entry.call(x)
    handle = op.impl("CPU", op.kernel("new"))
    op.entry.call(x)
    handle.close()
    op.entry.call(x)
    assert op.calls == ["old", "new", "old"]


def test_a_library_owns_its_namespace_once() -> None:
    refused = pytest.raises(RuntimeError, match=r"Only a single library .* registered at one, again at two")
    with DISPATCHER.register_library("t_owned", "one"), refused:
        DISPATCHER.register_library("t_owned", "two")
    DISPATCHER.register_library("t_owned", "three").close()


# --- resolution

BACKENDS = ["CPU", "CUDA", "Meta", "XLA", "SparseCPU", "QuantizedCPU", "PrivateUse1"]
COMPOSITES = [
    "CompositeExplicitAutogradNonFunctional",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_key_takes_its_own_kernel_then_the_composites_in_order(op: Operator, backend: str) -> None:
    with pytest.raises(NotImplementedError):
        op.chosen(backend)
    for better in [*reversed(COMPOSITES), backend]:
        op.impl(better)
        assert op.chosen(backend) == better


@pytest.mark.parametrize("registered", list(itertools.permutations([*COMPOSITES, "CPU"])))
def test_the_order_of_registration_does_not_matter(op: Operator, registered: tuple[str, ...]) -> None:
    for key in registered:
        op.impl(key)
    assert op.chosen("CPU") == "CPU"
    assert op.chosen("CUDA") == "CompositeExplicitAutogradNonFunctional"


@pytest.mark.parametrize(("autograd", "backend"), [("AutogradCPU", "CPU"), ("AutogradXLA", "XLA")])
def test_an_autograd_key_takes_own_then_implicit_then_alias_then_fallback(
    op: Operator, autograd: str, backend: str
) -> None:
    op.impl("CompositeImplicitAutograd")
    assert op.chosen(autograd, backend) == "CompositeImplicitAutograd"
    op.impl("Autograd")
    assert op.chosen(autograd, backend) == "CompositeImplicitAutograd"
    backend_kernel = op.impl(backend)
    assert op.chosen(autograd, backend) == "Autograd"
    backend_kernel.close()
    assert op.chosen(autograd, backend) == "CompositeImplicitAutograd"
    op.impl(autograd)
    assert op.chosen(autograd, backend) == autograd


@pytest.mark.parametrize("explicit", COMPOSITES[:2])
def test_an_explicit_composite_keeps_the_implicit_one_from_autograd(op: Operator, explicit: str) -> None:
    op.impl("CompositeImplicitAutograd")
    op.impl(explicit)
    assert op.chosen("AutogradCPU", "CPU") == "autograd fallback"
    op.impl("Autograd")
    assert op.chosen("AutogradCPU", "CPU") == "Autograd"


def test_a_backend_kernel_speaks_for_its_own_autograd_key_only(op: Operator) -> None:
    op.impl("CompositeImplicitAutograd")
    op.impl("CUDA")
    assert op.chosen("AutogradCUDA", "CUDA") == "autograd fallback"
    assert op.chosen("AutogradCPU", "CPU") == "CompositeImplicitAutograd"


def test_ambiguity_under_autograd_other(op: Operator) -> None:
    op.impl("CompositeImplicitAutograd")
    assert op.chosen("AutogradOther") == "CompositeImplicitAutograd"
    op.impl("SparseCPU")
    with pytest.raises(RuntimeError, match="ambiguous"):
        op.chosen("AutogradOther")
    op.impl("AutogradOther")
    assert op.chosen("AutogradOther") == "AutogradOther"


def test_the_message_of_a_missing_kernel(op: Operator) -> None:
    op.impl("CUDA")
    op.impl("Meta")
    with pytest.raises(NotImplementedError) as raised:
        op.entry.call(tt.ones(1))
    message = str(raised.value)
    assert op.name in message
    assert "'CPU' backend" in message
    assert "[CUDA, Meta]" in message


def test_the_message_of_a_set_without_backend(op: Operator) -> None:
    op.impl("CUDA")
    with pytest.raises(NotImplementedError, match="names no backend"):
        op.entry.lookup(Key.Tracer.bits)


def test_a_key_sets_answer_is_computed_once(op: Operator) -> None:
    op.impl("CPU")
    bits = KeySet(Key.CPU).raw_repr()
    assert op.entry.lookup(bits) is op.entry.lookup(bits)
    assert list(op.entry._table) == [bits]
    op.impl("Meta")
    assert not op.entry._table


# --- fallthrough and fallbacks


def test_a_fallthrough_hands_to_the_next_key(op: Operator) -> None:
    op.impl("CPU")
    op.impl("Tracer", KernelFunction.fallthrough())
    op.impl("AutogradCPU", KernelFunction.fallthrough())
    assert op.chosen("Tracer", "AutogradCPU", "CPU") == "CPU"
    w = tt.ones(1).requires_grad_()
    assert not op.entry.call(w).requires_grad


def test_a_fallthrough_of_one_backend_hands_to_the_next(op: Operator) -> None:
    op.impl("CPU")
    op.impl("CUDA", KernelFunction.fallthrough())
    assert op.chosen("CPU", "CUDA") == "CPU"


def test_functionalities_without_kernel_fall_through(op: Operator) -> None:
    op.impl("CPU")
    assert op.chosen("Tracer", "Profiler", "Batched", "ADInplaceOrView", "CPU") == "CPU"


def test_the_key_of_a_layer_comes_first(op: Operator) -> None:
    op.impl("CPU")
    op.impl("Tracer")
    assert op.chosen("Tracer", "AutogradCPU", "CPU") == "Tracer"


def test_a_fallback_serves_every_operator_and_own_kernels_win(op: Operator) -> None:
    seen: list[str] = []

    def boxed(entry: OperatorEntry, keys: tt.DispatchKeySet, stack: list[Any]) -> None:
        seen.append(entry.name)
        stack[:] = [stack[0]]

    other = Operator()
    other.define()
    kernel = KernelFunction(boxed, boxed=True, source="boxed fallback")
    with DISPATCHER.register_fallback("IPU", kernel):
        assert op.chosen("IPU") == other.chosen("IPU") == "boxed fallback"
        x = tt.ones(1)
        assert DISPATCHER.call_with_dispatch_key(op.entry, Key.IPU, x) is x
        assert seen == [op.name]
        op.impl("IPU")
        assert op.chosen("IPU") == "IPU"
        with pytest.raises(RuntimeError, match=r"multiple backend fallbacks .*IPU.*boxed fallback"):
            DISPATCHER.register_fallback("IPU", kernel)
    with pytest.raises(NotImplementedError):
        other.chosen("IPU")
    for handle in other.handles:
        handle.close()


def test_composites_come_before_a_backend_fallback(op: Operator) -> None:
    with DISPATCHER.register_fallback("IPU", KernelFunction(lambda *a: None, boxed=True, source="fallback")):
        assert op.chosen("IPU") == "fallback"
        op.impl("CompositeExplicitAutograd")
        assert op.chosen("IPU") == "CompositeExplicitAutograd"


# --- calling


def test_redispatch_goes_below(op: Operator) -> None:
    op.impl("CPU")

    def tracer(keys: int, x: Any) -> Any:
        op.calls.append("Tracer")
        return DISPATCHER.redispatch(op.entry, KeySet.from_raw_repr(keys) - Key.Tracer, x)

    op.impl("Tracer", KernelFunction(tracer, takes_key_set=True))
    keys = KeySet([Key.Tracer, Key.CPU])
    DISPATCHER.redispatch(op.entry, keys, tt.ones(1))
    assert op.calls == ["Tracer", "CPU"]


def boxed_double(entry: OperatorEntry, keys: tt.DispatchKeySet, stack: list[Any]) -> None:
    x = stack.pop()
    stack.append(x + x)


def keyed_double(keys: int, x: Any) -> Any:
    return x + x


@pytest.mark.parametrize(
    "kernel",
    [
        KernelFunction(lambda x: x + x),
        KernelFunction(boxed_double, boxed=True),
        KernelFunction(keyed_double, takes_key_set=True),
        KernelFunction(None, planner=lambda op, keys, args: lambda x: x + x),
    ],
    ids=["unboxed", "boxed", "with key set", "planner"],
)
@pytest.mark.parametrize("how", ["call", "boxed", "redispatch", "redispatch boxed", "with key"])
def test_every_kind_of_kernel_serves_every_kind_of_call(
    op: Operator, kernel: KernelFunction, how: str
) -> None:
    op.impl("CPU", kernel)
    x = tt.tensor([1.0, 2.0])
    stack: list[Any] = ["below", x]
    calls: dict[str, Callable[[], Any]] = {
        "call": lambda: DISPATCHER.call(op.entry, x),
        "boxed": lambda: DISPATCHER.call_boxed(op.entry, stack),
        "redispatch": lambda: DISPATCHER.redispatch(op.entry, KeySet(Key.CPU), x),
        "redispatch boxed": lambda: DISPATCHER.redispatch_boxed(op.entry, KeySet(Key.CPU), stack),
        "with key": lambda: DISPATCHER.call_with_dispatch_key(op.entry, Key.CPU, x),
    }
    for _ in range(2):
        stack[:] = ["below", x]
        result = calls[how]()
        if "boxed" in how:
            assert stack[0] == "below"
            assert len(stack) == 2
            result = stack[1]
        assert result.tolist() == [2.0, 4.0]


def test_a_short_stack_and_a_kernel_that_leaves_a_wrong_one(op: Operator) -> None:
    with pytest.raises(RuntimeError, match=r"the stack holds 0 values, the schema takes 1"):
        DISPATCHER.call_boxed(op.entry, [])
    op.impl("CPU", KernelFunction(lambda entry, keys, stack: stack.append(1), boxed=True))
    with pytest.raises(RuntimeError, match="left 2 values on the stack, expected 1"):
        op.entry.call(tt.ones(1))


def test_several_results_and_none() -> None:
    pair, nothing = Operator("(Tensor x) -> (Tensor, Tensor)"), Operator("(Tensor x) -> ()")
    for made in (pair, nothing):
        made.define()
    pair.impl("CPU", KernelFunction(lambda x: (x, x + 1)))
    nothing.impl("CPU", KernelFunction(lambda x: None))
    x = tt.ones(1)
    stack: list[Any] = [x]
    DISPATCHER.call_boxed(pair.entry, stack)
    assert [t.item() for t in stack] == [1.0, 2.0]
    stack = [x]
    DISPATCHER.call_boxed(nothing.entry, stack)
    assert stack == []
    for handle in pair.handles + nothing.handles:
        handle.close()


def test_a_kernel_of_operators_is_one_operation_to_autograd(op: Operator) -> None:
    """Run the calls of a kernel below autograd, without recording them."""
    op.impl("CPU", KernelFunction(lambda x: x.relu() + x))
    w = tt.ones(2).requires_grad_()
    out = op.entry.call(w)
    assert out.requires_grad
    assert out.grad_fn.next_functions[0][0].variable is w
    with pytest.raises(RuntimeError, match=f"derivative for {op.name} is not implemented"):
        out.sum().backward()
    assert (w.relu() + 1).requires_grad


def test_an_implicit_composite_is_differentiated_through_its_parts(op: Operator) -> None:
    op.impl("CompositeImplicitAutograd", KernelFunction(lambda x: x.relu() + x))
    w = tt.tensor([1.0, -1.0]).requires_grad_()
    op.entry.call(w).sum().backward()
    assert w.grad.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "key", ["XLA", "XPU", "IPU", "HPU", "VE", "Lazy", "MPS", "PrivateUse1", "PrivateUse2"]
)
def test_keys_of_other_backends_take_kernels_and_route_calls(op: Operator, key: str) -> None:
    op.impl(key)
    DISPATCHER.call_with_dispatch_key(op.entry, getattr(Key, key), tt.ones(1))
    assert op.calls == [key]
