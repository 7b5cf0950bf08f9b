"""What can be compiled (`torch._dynamo.utils`)."""


def is_compile_supported(device_type: object) -> bool:
    """Whether graphs are compiled for a device type: the host's, and CUDA's."""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")
