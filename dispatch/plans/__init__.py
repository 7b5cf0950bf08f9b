"""Plans: functions made once for arguments with the same metadata, and then called with the tensors alone.

- `functional` and `writing` close over a kernel; `structured` selects one of them for a structured operator's form.
- `structured_kernel`, `view_kernel`, `detach`, `embed`, `through_out` and `delegated` are planners named by
  operators.
- `host_kernel` lets one host kernel serve a whole composite.
- `register` is the interface of generated registrations.

Meta functions (`structured/meta`) use this folder; kernels do not belong here.
"""
