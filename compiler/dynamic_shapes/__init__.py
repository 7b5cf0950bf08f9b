"""Dynamic shapes: graphs that are valid for many sizes, for `tt.compile(dynamic=)` and `tt.export(dynamic_shapes=)`.

- `observed_size` gives Python code sizes that record the decisions based on them.
- `size_expressions` expresses a number in terms of sizes.
- `template` compares captures at several sizes and returns the steps for any other; `graph_rows` is the compared form.

For `tt.compile`:

- `probes` captures a function at sizes that no call has had.
- `recording_template` makes recordings of a template.
- `sizes_seen` decides which dimensions are dynamic.

Nothing here generates code.
"""
