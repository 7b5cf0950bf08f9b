"""Types and decorators for symbolic functions of custom operators (`torch.onnx.symbolic_helper`); see `symbolic`."""

from .symbolic import GraphContext, parse_args

__all__ = ["GraphContext", "parse_args"]
