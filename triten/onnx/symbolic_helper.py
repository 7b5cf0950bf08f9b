"""What translations of custom operators are written with (`torch.onnx.symbolic_helper`); see `symbolic`."""

from .symbolic import GraphContext, parse_args

__all__ = ["GraphContext", "parse_args"]
