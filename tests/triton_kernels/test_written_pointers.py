"""The pointers that a kernel writes, however it reaches `tl.store`: aliases, helpers, tuples, objects."""

import pytest
import triton
import triton.language as tl
from triton.language import atomic_add as add_atomically
from triton.language import store as store_by_another_name
from triton.language.core import _aggregate as aggregate

from triten.runtime.cuda.triton.written_pointers import written_parameters

_store = tl.store
_assembly = tl.inline_asm_elementwise


@triton.jit
def write(pointer, value):
    tl.store(pointer, value)


@triton.jit
def read(pointer, value):
    tl.load(pointer)


@triton.jit
def load(pointer):
    return pointer + 1


@triton.jit
def pick(pointer, other):
    return pointer


class Namespace:
    sum = write


namespace = Namespace


@aggregate
class Box:
    pointer: tl.tensor

    @triton.constexpr_function
    def __init__(self, pointer):
        self.pointer = pointer

    @triton.jit
    def load(self, value):
        tl.store(self.pointer, value)


@triton.jit
def by_another_name(x, y, v):
    store_by_another_name(x, v)


@triton.jit
def by_a_global(x, y, v):
    _store(x, v)


@triton.jit
def by_an_atomic(x, y, v):
    add_atomically(x, v)


@triton.jit
def by_a_variable(x, y, v):
    function = tl.store
    function(x, tl.load(y))


@triton.jit
def by_a_constant(x, y, v, FUNCTION: tl.constexpr):
    FUNCTION(x, tl.load(y))


@triton.jit
def by_a_default(x, y, v, FUNCTION: tl.constexpr = write):
    FUNCTION(x, tl.load(y))


@triton.jit
def by_a_descriptor(x, y, v):
    descriptor = tl.make_tensor_descriptor(x, [16], [1], [16])
    tl.store_tensor_descriptor(descriptor, [0], tl.load(y))


@triton.jit
def by_a_helper_named_load(x, y, v):
    tl.store(load(x), v)


@triton.jit
def by_a_helper_that_returns(x, y, v):
    tl.store(pick(x, y), v)


@triton.jit
def by_a_class(x, y, v):
    namespace.sum(x, v)


@triton.jit
def by_assembly(x, y, v):
    _assembly("st.global.u32 [$1], 1;", "=r,l", [x], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def by_a_list(x, y, v):
    pointers = []
    pointers.append(x)
    tl.store(pointers[0], v)


@triton.jit
def by_a_nested_function(x, y, v):
    def inner(pointer):
        tl.store(pointer, v)

    inner(x)


@triton.jit
def by_keywords(x, y, v):
    tl.store(value=tl.load(y), pointer=x)


@triton.jit
def by_unpacking(x, y, v):
    arguments = (x, v)
    write(*arguments)


@triton.jit
def by_a_context(x, y, v):
    with pick(x, y) as pointer:
        tl.store(pointer, v)


@triton.jit
def by_a_swap(x, z, v):
    for _ in range(2):
        tl.store(z, v)
        x, z = z, x


KERNELS = [value for name, value in list(globals().items()) if name.startswith("by_")]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.fn.__name__)
def test_a_write_is_found_and_a_read_is_none(kernel):
    written = written_parameters(kernel)
    assert "x" in written
    assert "y" not in written


@triton.jit
def by_an_object(x, y, v):
    box = Box(x)
    box.load(v)


@triton.jit
def reads(x, y, v):
    value = tl.load(x) + pick(tl.load(y), v)
    if x.dtype.element_ty.is_floating():
        value = value.to(y.dtype.element_ty, bitcast=True)
    tl.device_print("value", value)


@triton.autotune([triton.Config({"BLOCK": 16})], key=["n"])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    tl.store(x, tl.load(y))


def test_decorators_are_no_part_of_a_kernel():
    assert written_parameters(tuned.fn) == {"x"}


def test_an_object_with_methods_may_write_everything():
    assert "x" in written_parameters(by_an_object)


def test_a_kernel_that_asks_for_dtypes_only_reads():
    assert not written_parameters(reads) & {"x", "y"}


def test_a_helper_that_is_bound_anew_is_looked_up_anew():
    def kernel_of(helper):
        @triton.jit
        def kernel(x, v):
            helper(x, v)

        def rebind(other):
            nonlocal helper
            helper = other

        return kernel, rebind

    kernel, rebind = kernel_of(read)
    assert not written_parameters(kernel)
    rebind(write)
    assert written_parameters(kernel) == {"x"}
