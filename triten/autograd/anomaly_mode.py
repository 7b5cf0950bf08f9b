"""Anomaly detection: the forward traceback of a failing backward (`torch.autograd.anomaly_mode`)."""

from ..dispatch.autograd.anomaly import (
    detect_anomaly,
    set_detect_anomaly,
)

__all__ = [
    "detect_anomaly",
    "set_detect_anomaly",
]
