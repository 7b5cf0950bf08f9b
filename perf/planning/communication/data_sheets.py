"""Links and machines by name, by their data sheets. Nothing here was measured.

Bandwidths are of one device in one direction, half of what vendors give for both:

- NVLink: "NVIDIA A100 Tensor Core GPU Architecture" (2020), 600 GB/s; "NVIDIA H100 Tensor Core GPU Architecture"
  (2022), 900 GB/s; "NVIDIA Blackwell Architecture Technical Brief" (2024), 1800 GB/s. NVSwitch gives every pair of
  GPUs of a node that rate; from the third generation on it adds up and multicasts ("NVIDIA H100 Tensor Core GPU
  Architecture", NVLink SHARP).
- PCI Express Base Specification 4.0 and 5.0: 16 lanes of 16 and 32 GT/s, coded 128b/130b.
- InfiniBand Trade Association, roadmap: HDR, NDR and XDR of 4 lanes, 200, 400 and 800 Gbit/s.
- RoCE and Ethernet: IEEE 802.3, the line rate.

No data sheet gives the latency of a collective's step. For NVLink, PCIe and RDMA it is that of the tuning model of
NCCL (``src/graph/tuning.cc``, protocol LL, ring), and so is the time in which a collective starts. The latency of TCP
over Ethernet, both figures of shared memory, and the share of each bandwidth that is sustained are assumptions.
"""

from __future__ import annotations

from .algorithms import MPI
from .interconnect import Interconnect, Link

OF_LINK = 0.8
"""The share of a link's bandwidth that collectives are taken to sustain: an assumption, no measurement."""
OF_NCCL = 3.6e-6
"""Seconds in which a collective of NCCL starts, by its tuning model."""
MICRO, GIGA = 1e-6, 1e9
GBIT = GIGA / 8


def _link(name: str, latency_us: float, bytes_per_second: float, *, reduces: bool = False) -> Link:
    return Link(name, latency_us * MICRO, bytes_per_second, sustained=OF_LINK, reduces=reduces)


LINKS = {
    "nvlink3": _link("NVLink 3 (A100)", 0.47, 300 * GIGA),
    "nvlink4": _link("NVLink 4 (H100)", 0.47, 450 * GIGA),
    "nvlink5": _link("NVLink 5 (B200)", 0.47, 900 * GIGA),
    "nvswitch2": _link("NVSwitch 2 (A100)", 0.47, 300 * GIGA),
    "nvswitch3": _link("NVSwitch 3 (H100)", 0.47, 450 * GIGA, reduces=True),
    "nvswitch4": _link("NVSwitch 4 (B200)", 0.47, 900 * GIGA, reduces=True),
    "pcie4": _link("PCIe 4.0 x16", 1.0, 16 * 16 * 128 / 130 * GBIT),
    "pcie5": _link("PCIe 5.0 x16", 1.0, 16 * 32 * 128 / 130 * GBIT),
    "infiniband_hdr": _link("InfiniBand HDR 200", 2.7, 200 * GBIT),
    "infiniband_ndr": _link("InfiniBand NDR 400", 2.7, 400 * GBIT),
    "infiniband_xdr": _link("InfiniBand XDR 800", 2.7, 800 * GBIT),
    "roce100": _link("RoCE 100", 2.7, 100 * GBIT),
    "roce200": _link("RoCE 200", 2.7, 200 * GBIT),
    "roce400": _link("RoCE 400", 2.7, 400 * GBIT),
    "ethernet10": _link("Ethernet 10 (TCP)", 25, 10 * GBIT),
    "ethernet25": _link("Ethernet 25 (TCP)", 25, 25 * GBIT),
    "ethernet100": _link("Ethernet 100 (TCP)", 25, 100 * GBIT),
    "ethernet400": _link("Ethernet 400 (TCP)", 25, 400 * GBIT),
    "shared_memory": _link("shared memory of one machine", 0.5, 10 * GIGA),
}
"""Links by name, each of one device in one direction."""

OF_HOSTS = ("shared_memory", "ethernet10", "ethernet25", "ethernet100", "ethernet400")
"""Links of processors, over which MPI communicates with the cores that compute."""

MACHINES = {
    "dgx_a100": ("nvswitch2", "infiniband_hdr", 8, "NVIDIA DGX A100 data sheet (2020): 8 ConnectX-6 of 200 Gbit/s"),
    "dgx_h100": ("nvswitch3", "infiniband_ndr", 8, "NVIDIA DGX H100 data sheet (2022): 8 ConnectX-7 of 400 Gbit/s"),
    "dgx_b200": ("nvswitch4", "infiniband_ndr", 8, "NVIDIA DGX B200 data sheet (2024): 8 ConnectX-7 of 400 Gbit/s"),
}  # fmt: skip
"""Machines of several devices: the links inside and between, devices (with an adapter each), source."""

SOURCE = "data sheets, taken to sustain {share:.0%} of the bandwidth; latencies of NCCL's tuning model; not measured"


def interconnect_of(name: str) -> Interconnect:
    """Return a machine, one link for all ranks, or two links joined by ``+`` (inside and between nodes of 8
    devices), by name.

    Raise ValueError for an unknown name.

    Example:
        >>> from triten.perf.planning.communication.data_sheets import interconnect_of
        >>> interconnect_of("pcie4+ethernet100").between.name
        'Ethernet 100 (TCP)'
    """
    source = SOURCE.format(share=OF_LINK)
    if name in MACHINES:
        inside, between, devices, sheet = MACHINES[name]
        return Interconnect(
            name, LINKS[inside], LINKS[between], devices, startup=OF_NCCL, source=f"{sheet}; {source}"
        )
    inside, joined, between = name.partition("+")
    for part in (inside, between) if joined else (inside,):
        if part not in LINKS:
            raise ValueError(
                f"plan(): interconnect must be an Interconnect or one of {', '.join((*MACHINES, *LINKS))}, or two "
                f"links joined by '+', got {name!r}"
            )
    if joined:
        return Interconnect(name, LINKS[inside], LINKS[between], 8, startup=OF_NCCL, source=source)
    if inside in OF_HOSTS:
        source = f"data sheet, taken to sustain {OF_LINK:.0%} of the bandwidth; latency assumed; not measured"
        return Interconnect(name, LINKS[inside], library=MPI, overlaps=False, source=source)
    return Interconnect(name, LINKS[inside], startup=OF_NCCL, source=source)
