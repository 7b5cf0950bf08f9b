"""`tt.compiler.minify`: reduction of a program that fails when it is compiled to the operators that fail.

A `program` is a graph with inputs; `failures` checks if it fails; `reductions` make it smaller while it does, and
`source_text` writes it as a file that runs. Nothing else of the compiler imports this folder.
"""

from __future__ import annotations

from .minified import Minified, minify

__all__ = ["Minified", "minify"]
