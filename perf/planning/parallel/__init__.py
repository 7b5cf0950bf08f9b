"""A program on many devices: `tt.perf.plan(..., mesh=..., interconnect=...)`.

`strategies` says what each dimension of a `mesh` does. `timeline` is the program of one device, in order, from its run
on Meta tensors; `stage` runs it again with the communication of the strategies, on a clock of its own; `pipeline` puts
stages and microbatches one after the other; `memory` adds up what a rank holds; `distributed_plan` is the result and
`prediction` makes it. The seconds of collectives come from `..communication`.
"""
