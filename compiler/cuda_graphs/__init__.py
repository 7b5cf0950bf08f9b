"""CUDA graphs of compiled programs, which ``mode="reduce-overhead"`` uses for programs on CUDA.

- `eligibility` decides which graphs of operators can be captured.
- `captured` holds one capture with its inputs and outputs.
- `graphed` is the program that replays a matching capture.

CUDA graphs themselves are in `runtime.cuda.graph`. Nothing here depends on fusion or on guards.
"""
