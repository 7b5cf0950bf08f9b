"""CUDA graphs of compiled programs: what ``mode="reduce-overhead"`` puts in front of a program on CUDA.

`eligibility` says which graphs of operators can be captured, `captured` holds one capture with its inputs and outputs,
and `graphed` is the program that takes a capture where one serves the call. What CUDA graphs are by themselves is in
`runtime.cuda.graph`; nothing here knows of fusion or of guards.
"""
