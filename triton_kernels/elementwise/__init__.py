"""Functions of one element: skeletons for any strides, tables of operators over them, copies and fills.

`elementwise.py` chooses a skeleton by geometry: `dense` there, `rows.py`, `tiles.py`, and `pairs.py` for complex
numbers; `operands.py` and `kernel_parameters.py` are what they share. `pointwise.py` and `activation.py` are tables,
`pointwise_functions.py`, `narrow_functions.py` and `complex_functions.py` what they compute; `quantization.py` has two
outputs, which the skeletons do not serve. Whatever combines elements with one another belongs elsewhere.
"""
