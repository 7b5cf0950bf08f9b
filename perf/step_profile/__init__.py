"""Profile of a training step: `tt.perf.profile_step`, and `python -m triten.perf profile SCRIPT --step FILE`.

- `recording` runs a step under `tt.profiler` and writes a trace that Perfetto opens, with the prediction of
  `tt.perf.plan`. `script` does so for a step of an unchanged script.
- `trace` reads traces of `tt.profiler` (and of PyTorch's profiler) into nested spans.
- `flame`, `timeline`, `allocations` and `comparison` arrange them for the page of `report`. `page_record` puts
  the parts together.

Drawing belongs to `report/`.
"""

from .recording import StepProfile, profile_step

__all__ = ["StepProfile", "profile_step"]
