"""Streams and events by PyTorch's path (`torch.cuda.streams`): `tt.cuda` has the same names."""

from ..runtime.cuda.event import Event
from ..runtime.cuda.stream import ExternalStream, Stream

__all__ = ["Event", "ExternalStream", "Stream"]
