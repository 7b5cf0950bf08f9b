"""Elastic launch: start, monitoring and restart of ranks (`torch.distributed.elastic`).

- `agent` is the process of a node that starts and monitors the node's workers.
- `rendezvous` is the agreement of all agents on the participants.
- `worker_environment` sets the workers' ranks.
- `multiprocessing` runs worker processes, with their logs and errors.
- `signals` handles the signals that end an agent.

`triten.distributed.run` is the command line, `triten.distributed.launcher` the API. Nothing here depends on
tensors, and `import triten.distributed` imports none of it.
"""
