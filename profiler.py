"""`tt.profiler`: what a program spends its time and memory on (`torch.profiler`)."""

from .dispatch.functional.profile import (
    ExperimentalConfig,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from .dispatch.functional.profile_events import DeviceType

__all__ = [
    "DeviceType",
    "ExperimentalConfig",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
