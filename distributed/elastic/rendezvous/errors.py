"""Errors of a rendezvous."""

from __future__ import annotations

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousTimeoutError",
]


class RendezvousError(Exception):
    """Failure of a rendezvous (`RendezvousError`)."""


class RendezvousClosedError(RendezvousError):
    """The job has ended (`RendezvousClosedError`)."""


class RendezvousConnectionError(RendezvousError):
    """The store of the rendezvous is not there, or no longer (`RendezvousConnectionError`)."""


class RendezvousTimeoutError(RendezvousError):
    """Too few nodes came in time (`RendezvousTimeoutError`)."""
