"""Types of tensors on CUDA devices, by dtype (`torch.cuda.FloatTensor` and its like); see `tensor_types`."""

from __future__ import annotations

from ..dispatch.methods.tensor_types import TensorType
from ..runtime import scalar_type as st

BFloat16Tensor = TensorType(st.bfloat16, "cuda")
BoolTensor = TensorType(st.bool_, "cuda")
ByteTensor = TensorType(st.uint8, "cuda")
CharTensor = TensorType(st.int8, "cuda")
DoubleTensor = TensorType(st.float64, "cuda")
FloatTensor = TensorType(st.float32, "cuda")
HalfTensor = TensorType(st.float16, "cuda")
IntTensor = TensorType(st.int32, "cuda")
LongTensor = TensorType(st.int64, "cuda")
ShortTensor = TensorType(st.int16, "cuda")
