"""Injected faults at random points: out-of-memory errors, interrupts, killed processes, full disks.

`actions` has the disturbed actions: training steps, calls under modes, saves. `memory` fails an action's n-th
allocation. `interrupts` interrupts an action at the n-th function call. `writers` kills processes that write
files, or limits their disk space. The fuzz target is `campaigns/faults.py`.
"""
