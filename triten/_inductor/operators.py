"""Operators of TorchInductor's generated code (`torch.ops.inductor`)."""

from .._C._dynamo.guards import _reinterpret_tensor
from ..dispatch.core.dispatcher import Dispatcher
from ..dispatch.core.kernel_function import KernelFunction
from ..runtime.dispatch_key import BY_NAME

NAME = "inductor::_reinterpret_tensor"
SCHEMA = f"{NAME}(Tensor self, int[] size, int[] stride, int offset_increment=0) -> Tensor"


def register() -> None:
    """Define the operator, which composes `aten::as_strided`."""
    dispatcher = Dispatcher.singleton()
    dispatcher.install(NAME, SCHEMA, __name__, frozenset())
    kernel = KernelFunction(_reinterpret_tensor, source=__name__)
    dispatcher.install_kernel(NAME, (BY_NAME["CompositeImplicitAutograd"],), kernel)
