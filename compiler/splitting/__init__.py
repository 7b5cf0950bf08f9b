"""Graph breaks: a function with an unsupported statement becomes separately captured parts and a residual function.

- `source` finds the syntax tree of a function.
- `names` finds the variables that statements read and bind.
- `exits` turns the exits of a part into returns.
- `residual` rewrites the function around a statement.
- `split` makes functions of these trees.

Splitting works on trees of statements, which are the same in every version of Python, and knows nothing of graphs.
"""
