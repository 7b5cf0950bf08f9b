"""Operators that take functions, which programs import by PyTorch's private name (`torch._higher_order_ops`)."""

from .associative_scan import associative_scan as associative_scan
from .loops import scan as scan
from .loops import while_loop as while_loop
from .map import map as map

__all__ = ["associative_scan", "map", "scan", "while_loop"]
