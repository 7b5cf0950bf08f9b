"""Layers with quantized weights that quantize their input in each call (`torch.ao.nn.quantized.dynamic`).

`tt.ao.quantization.quantize_dynamic` replaces layers of a model by these.
"""

from __future__ import annotations

from typing import Any, Self

from ....dispatch.core.op_overload import Ops
from ....dispatch.generated import functions as _ops
from ....dispatch.tensor import Tensor
from ....dispatch.tensor_data import tensor
from ....nn.modules.linear import Linear as FloatLinear
from ....nn.modules.linear import NonDynamicallyQuantizableLinear
from ....nn.modules.module import Module
from ....nn.utils.parametrize import type_before_parametrizations
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float16, float32, qint8
from ...quantization.observer import quantize_weight
from ...quantization.qconfig import default_dynamic_qconfig

__all__ = ["Linear", "LinearPackedParams"]

_quantized: Any = Ops().quantized


class LinearPackedParams(Module):
    """Packed weight and bias of a quantized linear layer (`torch.ao.nn.quantized.modules.linear.LinearPackedParams`).

    Args:
        dtype: Dtype of the weight, `tt.qint8` or `tt.float16`.

    Example:
        >>> import triten as tt
        >>> from triten.ao.nn.quantized.dynamic import LinearPackedParams
        >>> packed = LinearPackedParams(tt.float16)
        >>> packed.set_weight_bias(tt.tensor([[0.1, 2.0]]), None)
        >>> packed
        (tensor([[0.1000, 2.0000]]), None)
    """

    _version = 3
    _packed_params: Any

    def __init__(self, dtype: ScalarType = qint8) -> None:
        super().__init__()
        if dtype not in (qint8, float16):
            raise RuntimeError(
                f"Unsupported dtype specified for quantized Linear! Expected {qint8} or {float16}, got {dtype}"
            )
        self.dtype = dtype
        self.set_weight_bias(_zeros(1, 1, dtype), None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Pack a weight and a bias: a weight of qint8, or one of float32 that is rounded to float16."""
        prepack = _quantized.linear_prepack if self.dtype is qint8 else _quantized.linear_prepack_fp16
        self._packed_params = prepack(weight, bias)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return _quantized.linear_unpack(self._packed_params)  # type: ignore[no-any-return]

    def forward(self, x: Any) -> Any:
        """Return the input."""
        return x

    def _own_state(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "_packed_params": self._weight_bias()}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination.update({prefix + name: member for name, member in self._own_state().items()})

    def _take(self, name: str, key: str, member: Any, loaded: Any, assign: bool) -> str | None:
        if name == "dtype":
            self.dtype = loaded
            return None
        if loaded[0].shape != member[0].shape:
            return (
                f"size mismatch for {key}: copying a weight with shape {loaded[0].shape} from checkpoint, the shape "
                f"in current model is {member[0].shape}."
            )
        self.set_weight_bias(*loaded)
        return None

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(Module):
    """Linear layer with a quantized weight and floating inputs and outputs (`torch.ao.nn.quantized.dynamic.Linear`).

    With a weight of qint8, each call quantizes the input to 7 bits by its minimum and maximum, multiplies integers, and
    returns float32: bitwise PyTorch's results on x86. With a weight of float16, the layer multiplies in float32.
    Inputs are float32. The layer computes on the device of the weight, and gives no gradients.

    Args:
        in_features: Size of the input's last dimension.
        out_features: Size of the output's last dimension.
        bias_: If True, add a bias. Default: True.
        dtype: Dtype of the weight, `tt.qint8` or `tt.float16`. Default: `tt.qint8`.

    Shape:
        x: (*, in_features).
        output: (*, out_features).

    Raises:
        RuntimeError: `dtype` is another one.

    Example:
        >>> import triten as tt
        >>> layer = tt.ao.nn.quantized.dynamic.Linear(3, 2)
        >>> layer
        DynamicQuantizedLinear(in_features=3, out_features=2, dtype=triten.qint8, qscheme=triten.per_tensor_affine)
        >>> weight = tt.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
        >>> layer.set_weight_bias(tt.quantize_per_tensor(weight, 0.5, 0, tt.qint8), tt.zeros(2))
        >>> layer(tt.tensor([0.0, 2.0, 127.0]))
        tensor([0., 4.])
    """

    _version = 4

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: ScalarType = qint8
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.scale = 1.0
        self.zero_point = 0
        self.version = self._version
        self._packed_params = LinearPackedParams(dtype)
        bias = _ops.zeros(out_features, dtype=float32) if bias_ else None
        self.set_weight_bias(_zeros(out_features, in_features, dtype), bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (*, in_features) to (*, out_features)."""
        packed = self._packed_params
        if packed.dtype is float16:
            return _quantized.linear_dynamic_fp16(x, packed._packed_params)  # type: ignore[no-any-return]
        # Layers that PyTorch saved before version 4 quantize their input to 8 bits.
        return _quantized.linear_dynamic(x, packed._packed_params, self.version >= 4)  # type: ignore[no-any-return]

    def weight(self) -> Tensor:
        """Return the weight: a tensor of qint8, or the values in float16 as float32."""
        return self._packed_params._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """Return the bias in float32, or None."""
        return self._packed_params._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Replace the weight and the bias.

        Args:
            w: Weight of shape (out_features, in_features): of qint8 with one scale or one per row, or of float32 for a
                layer of float16.
            b: Bias of shape (out_features,) in float32, or None.
        """
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized layer of a linear layer.

        Args:
            mod: `tt.nn.Linear` whose attribute ``qconfig`` is a `QConfig`; its weight observer chooses dtype and scale.
            use_precomputed_fake_quant: Has no effect, as in PyTorch.

        Raises:
            AssertionError: `mod` is of another type or has no ``qconfig``, or the observer's dtype is neither qint8
                nor float16.
        """
        kinds = (FloatLinear, NonDynamicallyQuantizableLinear)
        if type_before_parametrizations(mod) not in kinds:
            raise AssertionError(
                "nn.quantized.dynamic.Linear.from_float only works for one of"
                f"{[kind.__name__ for kind in kinds]}, got {type(mod)}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        config: Any = mod.qconfig
        if config is None or config.weight is None:
            config = default_dynamic_qconfig
        weight: Any = mod.weight
        bias: Any = mod.bias
        observer = config.weight()
        if observer.dtype not in (qint8, float16):
            raise AssertionError(
                "The only supported dtypes for dynamic quantized linear are qint8 and float16, got: "
                f"{observer.dtype}"
            )
        observer(weight)
        values = weight.detach().float()
        layer = cls(weight.shape[1], weight.shape[0], dtype=observer.dtype)
        layer.set_weight_bias(
            quantize_weight(values, observer) if observer.dtype is qint8 else values,
            None if bias is None else bias.detach().float(),
        )
        return layer

    def _own_state(self) -> dict[str, Any]:
        return {"scale": tensor(self.scale), "zero_point": tensor(self.zero_point)}

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        self.version = local_metadata.get("version", self._version)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _take(self, name: str, key: str, member: Any, loaded: Any, assign: bool) -> str | None:
        setattr(self, name, loaded.item())
        return None

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        dtype = self._packed_params.dtype
        scheme = f", qscheme={self.weight().qscheme()}" if dtype is qint8 else ""
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={dtype}{scheme}"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


def _zeros(rows: int, columns: int, dtype: ScalarType) -> Tensor:
    """Return a zero weight of a layer's dtype, before packing."""
    zeros = _ops.zeros(rows, columns, dtype=float32)
    return zeros if dtype is float16 else _ops.quantize_per_tensor(zeros, 1.0, 0, qint8)
