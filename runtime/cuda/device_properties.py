"""`DeviceProperties`: properties of a device by PyTorch's field names (`torch.cuda.get_device_properties`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of a device. Memory is in bytes, clocks in kHz, bus width in bits.

    `max_shared_memory` is the opt-in limit of one block, which PyTorch calls `shared_memory_per_block_optin`. A field
    that the driver does not report is 0, or an empty `uuid`. A simulated device has no bus; its PCI fields are -1.

    Example:
        >>> import triten as tt
        >>> found = tt.cuda.get_device_properties(0)
        >>> found.warp_size, found.shared_memory_per_block_optin == found.max_shared_memory
        (32, True)
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_shared_memory: int
    shared_memory_per_block: int = 48 * 1024
    shared_memory_per_multiprocessor: int = 0
    regs_per_multiprocessor: int = 0
    max_threads_per_multi_processor: int = 0
    max_threads_per_block: int = 1024
    L2_cache_size: int = 0
    clock_rate: int = 0
    memory_clock_rate: int = 0
    memory_bus_width: int = 0
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    pci_domain_id: int = -1
    pci_bus_id: int = -1
    pci_device_id: int = -1
    uuid: str = ""

    @property
    def capability(self) -> int:
        """Compute capability as one number, major times 10 plus minor: 90 is sm_90."""
        return 10 * self.major + self.minor

    @property
    def design(self) -> int:
        """Data-center target whose kernels suit the device: 80, 90 or 100.

        It determines the matmul instructions:

        - warp level (``mma.sync``): sm_80 to sm_89, sm_120 and sm_121;
        - warpgroup level (``wgmma``): sm_90;
        - tensor memory (``tcgen05``): sm_100, sm_103, sm_110.

        Example:
            >>> from triten.runtime.cuda.device_properties import DeviceProperties
            >>> [DeviceProperties("", major, minor, 0, 1, 32, 0).design for major, minor in ((8, 9), (10, 3), (12, 0))]
            [80, 100, 80]
        """
        return design_of(self.capability)

    @property
    def shared_memory_per_block_optin(self) -> int:
        """Maximum shared memory of one block that opts in."""
        return self.max_shared_memory


def design_of(capability: int) -> int:
    """Return `DeviceProperties.design` of a compute capability, major times 10 plus minor.

    Example:
        >>> [design_of(capability) for capability in (75, 80, 89, 90, 100, 103, 120)]
        [80, 80, 80, 90, 100, 100, 80]
    """
    if capability // 10 == 9:
        return 90
    return 100 if capability // 10 in (10, 11) else 80
