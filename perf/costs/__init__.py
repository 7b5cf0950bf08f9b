"""What a program costs by its shapes alone: bytes moved and floating-point operations, counted on Meta tensors.

`counting` runs the program and adds up; `formulas` says what each operator takes.
"""

from .counting import Cost, OperatorCost, cost

__all__ = ["Cost", "OperatorCost", "cost"]
