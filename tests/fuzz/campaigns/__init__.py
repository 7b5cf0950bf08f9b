"""Fuzz targets: a module or a folder for each, imported on request."""

import importlib

from ..campaign import Campaign

CAMPAIGNS = {
    "samples": "samples:Samples",
    "samples_meta": "samples:SamplesOnMeta",
    "samples_cuda": "samples:SamplesOnCuda",
    "programs": "programs:Programs",
    "programs_compiled": "programs_compiled:CompiledPrograms",
    "programs_compiled_cuda": "programs_compiled:CompiledProgramsOnCuda",
    "programs_transformed": "programs_transformed:TransformedPrograms",
    "programs_interpreted": "programs_on_cuda:InterpretedPrograms",
    "programs_emulated": "programs_on_cuda:EmulatedPrograms",
    "second_derivatives": "second_derivatives:SecondDerivatives",
    "many_operands": "many_operands:ManyOperands",
    "faults": "faults:Faults",
    "faults_cuda": "faults:FaultsOnCuda",
    "files": "files:Files",
    "allocator": "allocator:Allocators",
    "threads": "threads:Threads",
    "distributed_mismatches": "distributed_mismatches:DistributedMismatches",
    "endurance": "endurance:Endurance",
    "process_state": "process_state:ProcessState",
    "exponential_outputs": "exponential_outputs:ExponentialOutputs",
    "planted": "planted:Planted",
}
"""Where each campaign is: ``module:class``, beneath this folder."""

ON_REQUEST = {"planted"}
"""Those that run only if they are named."""


def campaign_named(name: str) -> Campaign:
    """Return a new fuzz target of that name. Raises KeyError if there is none."""
    module, _, kind = CAMPAIGNS[name].partition(":")
    campaign: Campaign = getattr(importlib.import_module(f"{__name__}.{module}"), kind)()
    return campaign
