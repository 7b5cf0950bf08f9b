"""Splitting: a function with a statement that no graph holds becomes parts, captured alone, and a residual function.

`source` finds the syntax tree of a function; `names` says which variables statements read and bind; `exits` turns the
ways out of a part into returns; `residual` writes the function anew around a statement; `split` makes functions of all
that.

Works on trees of statements, which are the same in every version of Python, and knows nothing of graphs.
"""
