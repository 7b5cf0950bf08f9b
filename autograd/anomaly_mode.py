"""Where in forward a backward came from that fails (`torch.autograd.anomaly_mode`)."""

from ..dispatch.autograd.anomaly import (
    detect_anomaly,
    set_detect_anomaly,
)

__all__ = [
    "detect_anomaly",
    "set_detect_anomaly",
]
