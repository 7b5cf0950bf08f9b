"""Plans: functions made once for specs that look alike, and then called with the tensors alone.

`functional` and `writing` close over a kernel; `structured` decides which of them a structured operator's form takes;
`structured_kernel`, `view_kernel`, `detach`, `embed`, `through_out` and `delegated` are planners that operators name;
`host_kernel` lets one kernel on the host serve a whole composite; `register` is what generated registrations call.
Meta functions (`structured/meta`) use this folder; kernels do not belong here.
"""
