"""Cost model of collectives: steps, bytes sent and bytes reduced by algorithm, and the links that carry them.

`algorithms` counts steps and bytes. `interconnect` converts them to seconds for a group of ranks inside a
node and between nodes. `data_sheets` has links and machines by name. `fitting` measures the links of running
ranks. No module here depends on a program or a parallelism strategy; those are in `..parallel`.
"""
