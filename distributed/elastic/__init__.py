"""How ranks are started, watched and started again (`torch.distributed.elastic`).

`agent` is the process that a node runs: it starts the node's workers and watches them. `rendezvous` has the agents of
all nodes agree on who takes part, `worker_environment` tells workers their ranks; `multiprocessing` is the processes of
workers, their logs and their errors; `signals` are those that end an agent. `triten.distributed.run` is the command
line over it, `triten.distributed.launcher` the calls. Nothing here knows tensors, and `import triten.distributed`
imports nothing of it.
"""
