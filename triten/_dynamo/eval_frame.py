"""The compiler's entry, by its private name (`torch._dynamo.eval_frame`)."""

from ..compiler.optimized_module import OptimizedModule as OptimizedModule


def is_dynamo_supported() -> bool:
    """Return True: functions are captured on every platform."""
    return True
