"""Kernels that `python -m triten.perf tune` gives a choice of configurations, on a driver that records launches.

``python -m triten.tests.perf.tuned_kernels 90`` runs the call of every workload for that target once, and prints JSON:
``asked``, the kernels with more than one candidate, and ``left_out``, the workloads that the target refuses.
"""

import json
import os
import re
import sys

from triten.perf.gpu import tune
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.recording_driver import RecordingDriver
from triten.triton_kernels.budget import Configuration
from triten.triton_kernels.tuning.choice import listening
from triten.triton_kernels.tuning.question import Question, candidates


def main(capability: int) -> None:
    os.environ["TRITEN_TUNING_STORE"] = "0"
    cuda._driver = RecordingDriver(KNOWN[capability])  # type: ignore[abstract] # its methods are set below the class
    asked, left_out = set(), []

    def note(question: Question, default: Configuration) -> None:
        if len(candidates(question, default)) > 1:
            asked.add(question.kernel.rpartition(":")[2])

    for label, made in tune.calls(re.compile("")):
        try:
            call, args = made()
            with listening(note):
                call(*args)
        except NotImplementedError:
            left_out.append(label)
    print(json.dumps({"asked": sorted(asked), "left_out": left_out}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
