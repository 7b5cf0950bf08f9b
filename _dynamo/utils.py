"""What can be compiled (`torch._dynamo.utils`): nothing."""


def is_compile_supported(device_type: object) -> bool:
    """False: nothing is compiled."""
    return False
