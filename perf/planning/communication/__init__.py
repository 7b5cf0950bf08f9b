"""What collectives take: steps, bytes sent and bytes reduced by algorithm, and the links that carry them.

`algorithms` counts, `interconnect` makes seconds of it for a group of ranks inside a node and between nodes,
`data_sheets` has links and machines by name, `fitting` measures the links of the ranks that run. Nothing here knows a
program or a strategy of parallelism; those are in `..parallel`.
"""
