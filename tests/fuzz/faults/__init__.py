"""Faults at drawn moments: memory that runs out, interrupts, processes that are killed, disks that are full.

`actions` has what is disturbed: training steps, calls under modes, saves. `memory` fails the n-th allocation of one,
`interrupts` interrupts one at the n-th call of a function; `writers` kills processes that write files, or gives them no
room. The campaign is `campaigns/faults.py`.
"""
