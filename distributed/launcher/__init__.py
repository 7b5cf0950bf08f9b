"""Calls that start ranks (`torch.distributed.launcher`); the command line is `triten.distributed.run`."""

from .api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
