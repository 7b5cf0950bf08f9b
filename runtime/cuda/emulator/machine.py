"""Execution of a kernel's blocks: many at a time, with an array element for each thread.

`schedule` chooses the threads that run; this module has the state that instructions use.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import warp
from .arithmetic import u4, u8
from .asynchronous import AsynchronousUnits, needs_units
from .basic_blocks import UntranslatableError
from .contraction import Bound, StoreCheck
from .device_functions import FUNCTIONS
from .fault import ASSERT, DIVERGENT, ILLEGAL, ILLEGAL_ADDRESS, EmulationError, Fault
from .global_memory import EmulatedMemory, GlobalAccess
from .instructions.writer import LOCAL, SHARED
from .ordered_memory import OrderedSharedMemory
from .ptx import Instruction, Module, SourceLine
from .schedule import Frame, Schedule
from .shared_memory import SharedMemory
from .translate import Translation
from .warp_group import GROUP

if TYPE_CHECKING:
    from ..simulated.memory import HostMemory

Array = np.ndarray[Any, Any]
Mask = Array | None

TOGETHER = 16_384
"""Approximate number of threads run together: enough to amortize NumPy calls, few enough for the cache."""
CLUSTER_SHIFT = 24
"""Bits of an address within a block's shared memory; above is the block's rank in its cluster, from 1 on."""
MAX_SHARED = 1 << 27
"""Approximate limit for the bytes of shared memory and its tags, which limits the blocks run together."""
WARP = 32
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Program:
    """Kernel of a module, ready to launch.

    Args:
        module: Parsed PTX module.
        name: Name of the kernel.
        addresses: Addresses of the module's variables in global memory.
        mends: If True, the assembler inserts waits for matmuls whose registers are read early, like that of Triton 3.9
            (ptxas remark C7517). The PTX ISA leaves the early value undefined, and the wait costs the overlap, so the
            emulator warns.
    """

    def __init__(self, module: Module, name: str, addresses: dict[str, int], mends: bool = False) -> None:
        self.module = module
        self._mends, self._warned = mends, False
        self.name = name
        self._addresses = addresses
        self._translations: dict[str, Translation] = {}
        self.kernel = self.translation(name)
        self.has_units = any(needs_units(function) for function in module.functions.values())
        self.stores = StoreCheck(name)
        self.piece = self._least("global")
        self.shared_piece = self._least("shared")

    def translation(self, name: str) -> Translation:
        """Return the translated function of a name."""
        translation = self._translations.get(name)
        if translation is None:
            translation = self._translations[name] = Translation(
                self.module, self.module.functions[name], self._addresses
            )
        return translation

    def _least(self, space: str) -> int:
        """Return the smallest access to a space in bytes, at most 4."""
        least = 4
        # A program with units tags shared memory by words: smaller reads are no race.
        writes = ("st", "atom", "red")
        opcodes = writes if space == "shared" and self.has_units else ("ld", *writes)
        for function in self.module.functions.values():
            for each in function.instructions:
                if each.opcode in opcodes and any(m.split("::")[0] == space for m in each.modifiers):
                    least = min(least, int(each.modifiers[-1].lstrip("bsuf").removesuffix("x2")) // 8)
        return least

    def is_mended(self) -> bool:
        """Return True if a matmul's register may be read before the wait. Warn the first time."""
        if self._mends and not self._warned:
            self._warned = True
            warnings.warn(
                f"kernel '{self.name}': a register is read before wgmma.wait_group; the assembler puts a wait there "
                "(ptxas, C7517)",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._mends

    def where(self, instruction: Instruction) -> str:
        """Describe the location of an instruction, for a message."""
        text = f"PTX line {instruction.line} ({instruction.name})"
        source = instruction.source
        while source is not None and source.line:
            text += f", {self._source(source)}"
            source = source.caller
        return text

    def _source(self, source: SourceLine) -> str:
        path = self.module.files.get(source.file, "?")
        return f"{path.rpartition('/')[2]}:{source.line}"


@dataclasses.dataclass
class Launch:
    """Launch of a program.

    Args:
        program: The kernel.
        grid: Blocks in each dimension.
        threads: Threads per block.
        shared: Bytes of dynamic shared memory per block.
        parameters: Parameters as the driver copies them into the constant bank.
        memory, host: Memory of the device, and page-locked memory of the host.
        strict: If True, reading uninitialized global memory is a fault.
        cluster: Blocks of a cluster, which are neighbors along the grid's first dimension.
    """

    program: Program
    grid: tuple[int, int, int]
    threads: int
    shared: int
    parameters: bytes
    memory: EmulatedMemory
    host: HostMemory
    strict: bool = True
    cluster: int = 1

    def run(self) -> None:
        """Run all blocks. Raise EmulationError for an illegal operation."""
        gx, gy, gz = self.grid
        count = gx * gy * gz
        if self.program.has_units and self.cluster > 1:
            raise UntranslatableError(
                f"kernel '{self.program.name}': clusters with asynchronous units (mbarrier, wgmma, bulk copies) "
                "are not emulated"
            )
        access = GlobalAccess(
            self.memory, self.host, count, self.program.piece, self.strict, self.program.stores
        )
        together = max(1, TOGETHER // self.threads)
        if self.program.has_units:
            pieces = max(self.shared // self.program.shared_piece, 1)
            together = max(1, min(together, MAX_SHARED // (pieces * (12 * self.threads // WARP + 8))))
        together = max(together // self.cluster, 1) * self.cluster
        with np.errstate(all="ignore"):
            for first in range(0, count, together):
                blocks = Blocks(self, access, first, min(count, first + together))
                try:
                    blocks.run()
                except Fault as fault:
                    raise self._reported(fault, blocks) from None
        try:
            access.finish()
        except Fault as fault:
            raise EmulationError(
                f"CUDA error: {fault.what}: kernel '{self.program.name}'", fault.code
            ) from None

    def _reported(self, fault: Fault, blocks: Blocks) -> EmulationError:
        where = f"kernel '{self.program.name}'"
        instruction = blocks.at(fault)
        if instruction is not None:
            where += f", {self.program.where(instruction)}"
        if fault.thread >= 0:
            where += f", {blocks.thread_name(fault.thread)}"
        return EmulationError(f"CUDA error: {fault.what}: {where}", fault.code)


class Blocks(Schedule):
    """Blocks of a launch that run together: the state that the translated instructions use."""

    def __init__(self, launch: Launch, access: GlobalAccess, first: int, last: int) -> None:
        self.launch, self.access = launch, access
        self.threads = launch.threads
        self.count = last - first
        self.n = self.count * launch.threads
        number = np.arange(self.n)
        self.all: Array = number
        self.block: Array = number // launch.threads
        """Index of each thread's block among the blocks that run together."""
        self.blocks: Array = self.block + first
        """Index of each thread's block in the grid."""
        self.thread: Array = (number % launch.threads).astype(u4)
        program = launch.program
        size = program.module.shared_size + launch.shared
        memory_arguments = size, self.count, launch.threads, program.shared_piece, program.stores
        self.shared: SharedMemory
        self.units: AsynchronousUnits | None = None
        if program.has_units:
            self.shared = ordered = OrderedSharedMemory(*memory_arguments)
            self.units = AsynchronousUnits(self, ordered)
        else:
            self.shared = SharedMemory(*memory_arguments, launch.cluster)
        access.order = self.shared if self.units is None and launch.threads > WARP else None
        self.running: Mask = None
        """Threads that run at this moment."""
        self.tested_phase: tuple[Any, Any] = (0, 0)
        """Address of a barrier and the phase or parity that a thread has just tested."""
        self.live: Array = np.ones(self.n, np.bool_)
        self._specials: dict[str, Any] = {}
        self._instruction: Instruction | None = None
        self._clock = itertools.count(1)

    # Control

    def run(self) -> None:
        """Run the kernel to its end."""
        translation = self.launch.program.kernel
        self._run(translation, Frame(translation), None)

    def at(self, fault: Fault) -> Instruction | None:
        """Return the instruction that raised a fault."""
        instruction = self._instruction
        trace = fault.__traceback__
        sources: dict[str, list[Instruction | None]] = {}
        for translation in self.launch.program._translations.values():
            sources |= translation.sources
        while trace is not None:
            lines = sources.get(trace.tb_frame.f_code.co_filename)
            if lines is not None:
                instruction = lines[trace.tb_lineno]
            trace = trace.tb_next
        return instruction

    def thread_name(self, thread: int) -> str:
        """Return the name of a thread: its block and its number in the block."""
        gx, gy, _ = self.launch.grid
        block = int(self.blocks[thread])
        return f"block ({block % gx}, {block // gx % gy}, {block // gx // gy}), thread {int(self.thread[thread])}"

    # Values

    def integers(self, value: Any, chosen: Array) -> list[int]:
        """Return a value of the chosen threads as integers."""
        result: list[int] = self.full(value)[chosen].tolist()
        return result

    def groups_of_warps(self, mask: Mask, operation: str) -> Array:
        """Return the complete warpgroups of a mask. Raise Fault for a partial one."""
        if self.threads % GROUP:
            raise Fault(f"{DIVERGENT}: {operation} by a part of four warps", int(self.some(mask)[0]))
        if mask is None:
            return np.arange(self.n // GROUP)
        rows = mask.reshape(-1, GROUP)
        some, every = rows.any(1), rows.all(1)
        if (some & ~every).any():
            raise Fault(f"{DIVERGENT}: {operation} by a part of four warps", int(np.flatnonzero(mask)[0]))
        return np.flatnonzero(every)

    def special(self, name: str) -> Any:
        """Return a special register."""
        value = self._specials.get(name)
        if value is None:
            value = self._special(name)
            if not name.startswith(("clock", "globaltimer")):
                self._specials[name] = value
        return value

    def _special(self, name: str) -> Any:
        gx, gy, gz = self.launch.grid
        match name:
            case "tid.x":
                return self.thread
            case "ctaid.x":
                return (self.blocks % gx).astype(u4)
            case "ctaid.y":
                return (self.blocks // gx % gy).astype(u4)
            case "ctaid.z":
                return (self.blocks // gx // gy).astype(u4)
            case "tid.y" | "tid.z" | "cluster_ctaid.y" | "cluster_ctaid.z" | "clusterid.z":
                return u4(0)
            case "cluster_ctarank" | "cluster_ctaid.x":
                cluster = self.launch.cluster
                return (self.block % cluster).astype(u4) if cluster > 1 else u4(0)
            case "clusterid.x":
                return (self.blocks % gx // self.launch.cluster).astype(u4)
            case "nclusterid.x":
                return u4(gx // self.launch.cluster)
            case "ntid.x":
                return u4(self.threads)
            case "ntid.y" | "ntid.z":
                return u4(1)
            case "cluster_nctarank" | "cluster_nctaid.x":
                return u4(self.launch.cluster)
            case "nctaid.x" | "nctaid.y" | "nctaid.z":
                return u4({"x": gx, "y": gy, "z": gz}[name[-1]])
            case "laneid":
                return self.thread % u4(WARP)
            case "warpid":
                return self.thread // u4(WARP)
            case "nwarpid":
                return u4(self.threads // WARP)
            case "smid":
                return self.blocks.astype(u4)
            case "lanemask_lt":
                return (u4(1) << (self.thread % u4(WARP))) - u4(1)
            case "lanemask_eq":
                return u4(1) << (self.thread % u4(WARP))
            case "dynamic_smem_size":
                return u4(self.launch.shared)
            case "clock" | "clock_hi":
                return u4(next(self._clock))
            case "clock64" | "globaltimer":
                return u8(next(self._clock))
        raise Fault(f"special register %{name} is not emulated")

    def parameter(self, offset: int, dtype: Any) -> Any:
        """Return a parameter of the kernel."""
        return np.frombuffer(self.launch.parameters, dtype, 1, offset)[0]

    def parameter_at(self, address: Any, dtype: Any, mask: Mask) -> Array:
        """Return the parameter at each thread's address in the parameter space."""
        bank = np.frombuffer(self.launch.parameters, np.uint8)
        chosen, size = self.some(mask), np.dtype(dtype).itemsize
        offsets = self.full(address)[chosen].astype(np.int64)
        outside = (offsets < 0) | (offsets > bank.size - size) | (offsets % size != 0)
        if outside.any():
            i = int(np.flatnonzero(outside)[0])
            raise Fault(
                f"{ILLEGAL}: load of {size} bytes at {int(offsets[i]):#x} of {bank.size} bytes of parameters",
                int(chosen[i]),
                ILLEGAL_ADDRESS,
            )
        result = np.zeros(self.n, dtype)
        result[chosen] = bank[offsets[:, None] + np.arange(size)].reshape(-1).view(dtype)
        return result

    def store_parameter(self, frame: Frame, key: tuple[str, int], value: Any, mask: Mask) -> None:
        """Set a parameter of a call, or a function's result."""
        if mask is not None and key in frame.parameters:
            value = np.where(mask, value, frame.parameters[key])
        frame.parameters[key] = value

    def call_device_function(
        self, name: str, frame: Frame, results: tuple[str, ...], arguments: tuple[str, ...], mask: Mask
    ) -> None:
        """Call a function of CUDA's device runtime."""
        result = FUNCTIONS[name](self, frame, arguments, mask)
        for taken in results:
            self.store_parameter(frame, (taken, 0), result, mask)

    # Memory

    def _gathered(self, rows: Array, count: int, mask: Mask, chosen: Array) -> tuple[Array, ...]:
        """Return the columns of some threads' rows, with an element for each thread."""
        columns = (rows,) if count == 1 else tuple(np.ascontiguousarray(rows.T))
        if mask is None:
            return columns
        spread = []
        for column in columns:
            whole = np.zeros(self.n, column.dtype)
            whole[chosen] = column
            spread.append(whole)
        return tuple(spread)

    def _nothing(self, size: int, count: int) -> tuple[Array, ...]:
        return (np.zeros(self.n, _UNSIGNED[size]),) * count

    def load_global(self, address: Any, size: int, count: int, mask: Mask) -> tuple[Array, ...]:
        """Execute ``ld.global``."""
        chosen = self.some(mask)
        if not chosen.size:
            return self._nothing(size, count)
        addresses = self.full(address)
        if mask is not None:
            addresses = addresses[chosen]
        rows = self.access.load(addresses, size, count, chosen, self.blocks[chosen])
        return self._gathered(rows, count, mask, chosen)

    def load_generic(
        self, frame: Frame, address: Any, size: int, count: int, mask: Mask
    ) -> tuple[Array, ...]:
        """Execute ``ld`` without a state space."""
        window = self._window(address, mask)
        if not window:
            return self.load_global(address, size, count, mask)
        if window >= SHARED:
            return self.load_shared(address - u8(window), size, count, mask)
        return self.load_local(_frame_of(frame, window), address - u8(window), size, count, mask)

    def store_global(
        self,
        address: Any,
        size: int,
        values: tuple[Any, ...],
        mask: Mask,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        """Execute ``st.global``."""
        chosen = self.some(mask)
        if chosen.size:
            addresses = self.full(address)
            if mask is not None:
                addresses = addresses[chosen]
            rows, nbytes = self._rows(values, mask, chosen), size * len(values)
            self.access.store(addresses, rows, nbytes, chosen, self.blocks[chosen], bounds)

    def store_generic(
        self,
        frame: Frame,
        address: Any,
        size: int,
        values: tuple[Any, ...],
        mask: Mask,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        """Execute ``st`` without a state space."""
        window = self._window(address, mask)
        if not window:
            self.store_global(address, size, values, mask, bounds)
        elif window >= SHARED:
            self.store_shared(address - u8(window), size, values, mask, bounds)
        else:
            self.store_local(_frame_of(frame, window), address - u8(window), size, values, mask)

    def _window(self, address: Any, mask: Mask) -> int:
        """Return the start of the state space of generic addresses; 0 for global memory."""
        chosen = self.some(mask)
        addresses = self.full(address)[chosen]
        if not chosen.size or not (addresses >= u8(LOCAL)).any():
            return 0
        windows = np.unique(addresses >> u8(32))
        if windows.size > 1:
            raise Fault("one generic access to several state spaces is not emulated", int(chosen[0]))
        return int(windows[0]) << 32

    def _rows(self, values: tuple[Any, ...], mask: Mask, chosen: Array) -> Array:
        """Return the values of some threads, a row for each."""
        columns = [self.full(value) for value in values]
        if mask is not None:
            columns = [column[chosen] for column in columns]
        return columns[0] if len(columns) == 1 else np.stack(columns, 1)

    def load_shared(self, address: Any, size: int, count: int, mask: Mask) -> tuple[Array, ...]:
        """Execute ``ld.shared``."""
        chosen = self.some(mask)
        if not chosen.size:
            return self._nothing(size, count)
        rows = self.shared.load(self.full(address)[chosen], size, count, chosen)
        return self._gathered(rows, count, mask, chosen)

    def address_in_cluster(self, address: Any, rank: Any, mask: Mask) -> Array:
        """Execute ``mapa``: the address of a variable in the shared memory of a block of the cluster."""
        ranks = self.full(rank)
        chosen = self.some(mask)
        if chosen.size and int(ranks[chosen].max()) >= self.launch.cluster:
            thread = int(chosen[np.argmax(ranks[chosen])])
            raise Fault(
                f"{ILLEGAL}: mapa to block {int(ranks[thread])} of a cluster of {self.launch.cluster}",
                thread,
                ILLEGAL_ADDRESS,
            )
        result: Array = self.full(address) | ((ranks + u4(1)) << u4(CLUSTER_SHIFT))
        return result

    def load_cluster(self, address: Any, size: int, count: int, mask: Mask) -> tuple[Array, ...]:
        """Execute ``ld.shared::cluster``; addresses that no ``mapa`` has made are the block's own."""
        chosen = self.some(mask)
        if not chosen.size:
            return self._nothing(size, count)
        addresses = self.full(address)[chosen]
        ranks = (addresses >> u8(CLUSTER_SHIFT)).astype(np.int64) - 1
        own, cluster = self.block[chosen], self.launch.cluster
        owners = np.where(ranks < 0, own, own - own % cluster + ranks)
        alive: Array = np.asarray(self.live.reshape(self.count, self.threads).any(axis=1))
        ended = ~alive[owners]
        if ended.any():
            i = int(np.flatnonzero(ended)[0])
            raise Fault(
                f"{ILLEGAL}: ld.shared::cluster from block {int(ranks[i])} of the cluster, which has ended",
                int(chosen[i]),
                ILLEGAL_ADDRESS,
            )
        offsets = addresses & u8((1 << CLUSTER_SHIFT) - 1)
        rows = self.shared.load_from(owners, offsets, size, count, chosen)
        return self._gathered(rows, count, mask, chosen)

    def store_shared(
        self,
        address: Any,
        size: int,
        values: tuple[Any, ...],
        mask: Mask,
        bounds: Sequence[Bound | None] = (),
    ) -> None:
        """Execute ``st.shared``."""
        chosen = self.some(mask)
        if chosen.size:
            rows, nbytes = self._rows(values, mask, chosen), size * len(values)
            self.shared.store(self.full(address)[chosen], rows, chosen, nbytes, bounds)

    def _local(self, frame: Frame, address: Any, nbytes: int, chosen: Array) -> tuple[Array, Array]:
        have = frame.translation.function.local
        if frame.local is None:
            frame.local = np.full((self.n, have), 0xCB, np.uint8)
        offsets = self.full(address)[chosen].view(np.int64)
        bad = (offsets < 0) | (offsets + nbytes > have) | (offsets % nbytes != 0)
        if bad.any():
            raise Fault(
                f"{ILLEGAL}: {nbytes} bytes at {int(offsets[bad][0]):#x} of local memory, of which a thread has {have}",
                int(chosen[bad][0]),
                ILLEGAL_ADDRESS,
            )
        return frame.local, offsets[:, None] + np.arange(nbytes)

    def load_local(self, frame: Frame, address: Any, size: int, count: int, mask: Mask) -> tuple[Array, ...]:
        """Execute ``ld.local``."""
        chosen = self.some(mask)
        if not chosen.size:
            return self._nothing(size, count)
        memory, byte_indices = self._local(frame, address, size * count, chosen)
        rows = np.ascontiguousarray(memory[chosen[:, None], byte_indices]).view(_UNSIGNED[size])
        return self._gathered(rows[:, 0] if count == 1 else rows, count, mask, chosen)

    def store_local(self, frame: Frame, address: Any, size: int, values: tuple[Any, ...], mask: Mask) -> None:
        """Execute ``st.local``."""
        chosen = self.some(mask)
        if chosen.size:
            memory, byte_indices = self._local(frame, address, size * len(values), chosen)
            rows = np.stack([self.full(value)[chosen] for value in values], 1)
            memory[chosen[:, None], byte_indices] = rows.view(np.uint8)

    def order_memory(self, order: str, mask: Mask) -> None:
        """Release or acquire for the threads' blocks: ``membar``, ``fence``, ``ld.acquire``, ``st.release``."""
        self.access.synchronised(self.blocks[self.some(mask)], order)

    def copy_to_shared(self, target: Any, source: Any, size: int, filled: Any, mask: Mask) -> None:
        """Execute ``cp.async``: copy the first `filled` bytes and zero the rest of `size`."""
        chosen = self.some(mask)
        if not chosen.size:
            return
        targets, sources = self.full(target)[chosen], self.full(source)[chosen]
        lengths = self.full(filled)[chosen]
        data = np.zeros((chosen.size, size // 4), u4)
        for length in np.unique(lengths).tolist():
            if length == 0:
                continue
            if length > size:
                raise Fault(
                    f"{ILLEGAL}: cp.async of {length} bytes among {size}", int(chosen[0]), ILLEGAL_ADDRESS
                )
            some = lengths == length
            words = length // 4
            if length == size:
                loaded = self.access.load(sources[some], 4, words, chosen[some], self.blocks[chosen[some]])
                data[some] = loaded.reshape(-1, words)
            else:
                raw = data[some].view(np.uint8)
                for i in range(length):
                    raw[:, i] = self.access.load(
                        sources[some] + u8(i), 1, 1, chosen[some], self.blocks[chosen[some]]
                    )
                data[some] = raw.view(u4)
        self.shared.begin_copy(targets, data, chosen)

    def commit_copies(self, mask: Mask) -> None:
        """Execute ``cp.async.commit_group``."""
        self.shared.commit(self.some(mask))

    def wait_for_copies(self, max_pending: int, mask: Mask, everything: bool = False) -> None:
        """Execute ``cp.async.wait_group``."""
        active = np.ones(self.n, np.bool_) if mask is None else mask
        self.shared.wait(max_pending, active, everything)

    def atomic_global(
        self, address: Any, operation: str, values: tuple[Any, ...], order: str, mask: Mask
    ) -> Array:
        """Execute ``atom.global``, thread by thread in the order of their numbers."""
        chosen = self.some(mask)
        dtype = values[0].dtype
        result = np.zeros(self.n, dtype)
        if not chosen.size:
            return result
        addresses = self.full(address)[chosen]
        self.access.check(addresses, dtype.itemsize, "atomic operation", chosen)
        operands = [self.full(value)[chosen] for value in values]
        if order in ("release", "acq_rel"):
            self.access.synchronised(self.blocks[chosen], "release")

        def put(where: Array, new: Array) -> None:
            self.access.put_atomically(where, new)

        result[chosen] = _in_order(addresses, operation, operands, self.access.get_atomically, put)
        if order in ("acquire", "acq_rel"):
            self.access.synchronised(self.blocks[chosen], "acquire")
        return result

    def combine_global(self, addresses: Array, operation: str, values: Array, thread: int) -> None:
        """Change distinct elements of global memory atomically, as a thread's bulk copy does."""
        self.access.check(
            addresses, values.dtype.itemsize, "atomic operation", np.full(addresses.size, thread)
        )
        old = self.access.get_atomically(addresses, values.dtype)
        self.access.put_atomically(addresses, _changed(operation, old, [values]))

    def atomic_shared(
        self, address: Any, operation: str, values: tuple[Any, ...], order: str, mask: Mask
    ) -> Array:
        """Execute ``atom.shared``."""
        chosen = self.some(mask)
        dtype = values[0].dtype
        result = np.zeros(self.n, dtype)
        if not chosen.size:
            return result
        size = dtype.itemsize
        positions = self.shared.positions(self.full(address)[chosen], size, "atomic operation", chosen)
        operands = [self.full(value)[chosen] for value in values]

        def get(where: Array, kind: Any) -> Array:
            return self.shared.rows(where.view(np.int64), size, 1).view(kind)

        def put(where: Array, new: Array) -> None:
            self.shared.put_atomically(where.view(np.int64), new)

        result[chosen] = _in_order(positions.view(np.uint64), operation, operands, get, put)
        return result

    def trap(self, mask: Mask) -> None:
        """Execute ``trap``."""
        chosen = self.some(mask)
        if chosen.size:
            raise Fault("device-side assert triggered", int(chosen[0]), ASSERT)

    # Warps

    def _warps(self, value: Any) -> Array:
        return self.full(value).reshape(-1, WARP)

    def _together(self, members: Any, mask: Mask, operation: str) -> None:
        """Raise Fault unless the threads in `members` are active."""
        if mask is None and np.ndim(members) == 0 and members == u4(0xFFFFFFFF):
            return
        active = np.ones(self.n, np.bool_) if mask is None else mask
        bits = (active.reshape(-1, WARP).astype(u8) << np.arange(WARP, dtype=u8)).sum(1).astype(u4)[:, None]
        missing = (self._warps(members) & ~bits) != 0
        missing &= active.reshape(-1, WARP)
        if missing.any():
            thread = int(np.flatnonzero(missing.reshape(-1))[0])
            raise Fault(f"{DIVERGENT}: {operation} names threads of the warp that are not there", thread)

    def shuffle(
        self, mode: str, value: Any, lane: Any, clamp: Any, members: Any, mask: Mask
    ) -> tuple[Array, Array]:
        """Execute ``shfl.sync``: return another thread's value, and whether that thread exists."""
        self._together(members, mask, "shfl.sync")
        source, inside = warp.shuffle_source(mode, self._warps(lane), self._warps(clamp))
        shuffled = np.take_along_axis(self._warps(value), source, 1)
        return shuffled.reshape(-1), inside.reshape(-1)

    def reduce(self, operation: str, value: Any, members: Any, mask: Mask) -> Array:
        """Execute ``redux.sync``: reduce a value over all threads of the warp."""
        self._together(members, mask, "redux.sync")
        values = self._warps(value)
        named = self._warps(members) == u4(0xFFFFFFFF)
        if mask is not None:
            named = named | ~mask.reshape(-1, WARP)
        if not named.all():
            raise Fault("redux.sync of a part of a warp is not emulated")
        return np.repeat(warp.REDUCTIONS[operation](values, 1, dtype=values.dtype), WARP)

    def vote(self, mode: str, value: Any, members: Any, mask: Mask) -> Array:
        """Execute ``vote.sync``."""
        self._together(members, mask, "vote.sync")
        named = ((self._warps(members) >> np.arange(WARP, dtype=u4)) & u4(1)) != 0
        if mask is not None:
            named = named & mask.reshape(-1, WARP)
        values = self._warps(value)
        if mode == "ballot":
            bits = ((values & named).astype(u8) << np.arange(WARP, dtype=u8)).sum(1).astype(u4)
            return np.repeat(bits, WARP)
        result = {"any": (values & named).any(1), "all": (values | ~named).all(1)}.get(mode)
        if result is None:
            result = (values | ~named).all(1) | ~(values & named).any(1)
        return np.repeat(result, WARP)

    def active(self, mask: Mask) -> Array:
        """Execute ``activemask``."""
        active = np.ones(self.n, np.bool_) if mask is None else mask
        bits = (active.reshape(-1, WARP).astype(u8) << np.arange(WARP, dtype=u8)).sum(1).astype(u4)
        return np.repeat(bits, WARP)

    def elect(self, members: Any, mask: Mask) -> tuple[Array, Array]:
        """Execute ``elect.sync``: return the first member lane, and whether each thread is that lane."""
        self._together(members, mask, "elect.sync")
        bits = self._warps(members).astype(np.int64)[:, :1]
        leader = np.log2(np.maximum(bits & -bits, 1)).astype(u4)
        return np.repeat(leader, WARP), (leader == np.arange(WARP)).reshape(-1)

    def synchronize_warp(self, members: Any, mask: Mask) -> None:
        """Execute ``bar.warp.sync``."""
        self._together(members, mask, "bar.warp.sync")

    def _whole_warps(self, mask: Mask, operation: str) -> Array:
        """Return the complete warps of a mask. Raise Fault for a partial one."""
        if mask is None:
            return np.arange(self.n // WARP)
        rows = mask.reshape(-1, WARP)
        some, every = rows.any(1), rows.all(1)
        if (some & ~every).any():
            raise Fault(f"{DIVERGENT}: {operation} by a part of a warp", int(np.flatnonzero(mask)[0]))
        return np.flatnonzero(every)

    def load_matrix(self, address: Any, count: int, transposed: bool, mask: Mask) -> list[Array]:
        """Execute ``ldmatrix``: load `count` 8x8 tiles of 16-bit numbers, a row at the address of each thread."""
        warps = self._whole_warps(mask, "ldmatrix")
        threads = (warps[:, None] * WARP + np.arange(8 * count)).reshape(-1)
        addresses = self.full(address)[threads]
        rows = self.shared.load(addresses, 2, 8, threads) if threads.size else np.zeros((0, 8), np.uint16)
        tiles = rows.reshape(-1, count, 8, 8)
        results = []
        for i in range(count):
            values = np.zeros((self.n // WARP, WARP), u4)
            values[warps] = warp.spread_rows(tiles[:, i], transposed)
            results.append(values.reshape(-1))
        return results

    def store_matrix(self, address: Any, values: tuple[Any, ...], transposed: bool, mask: Mask) -> None:
        """Execute ``stmatrix``."""
        warps = self._whole_warps(mask, "stmatrix")
        if not warps.size:
            return
        tiles = np.stack([warp.gathered_rows(self._warps(value)[warps], transposed) for value in values], 1)
        threads = (warps[:, None] * WARP + np.arange(8 * len(values))).reshape(-1)
        self.shared.store(self.full(address)[threads], tiles.reshape(-1, 8), threads, 16)

    def multiply_matrices(
        self, shape: str, types: tuple[str, ...], a: Any, b: Any, c: Any, mask: Mask
    ) -> list[Array]:
        """Execute ``mma.sync``."""
        warps = self._whole_warps(mask, "mma.sync")
        parts = [[self._warps(register)[warps] for register in each] for each in (a, b, c)]
        results = []
        for accumulator in warp.multiply(shape, types, *parts):
            values = np.zeros((self.n // WARP, WARP), accumulator.dtype)
            values[warps] = accumulator
            results.append(values.reshape(-1))
        return results


def _frame_of(frame: Frame, window: int) -> Frame:
    """Return the frame of a local memory window: that of a call or of one of its callers."""
    depth = (window - LOCAL) >> 32
    while frame.depth > depth and frame.outer is not None:
        frame = frame.outer
    return frame


def _in_order(addresses: Array, operation: str, operands: list[Array], get: Any, put: Any) -> Array:
    """Return the value that each thread finds when several threads update memory one after the other."""
    dtype = operands[0].dtype
    previous = np.zeros(addresses.size, dtype)
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    length = np.diff(np.r_[first, ordered.size])
    rank = np.arange(ordered.size) - np.repeat(first, length)
    if operation == "add" and dtype.kind in "iu" and length.max() > 1:
        values = operands[0][order]
        sums = np.cumsum(values, dtype=dtype)
        before = sums - values
        before -= np.repeat(before[first], length)
        start = get(ordered[first], dtype)
        previous[order] = np.repeat(start, length) + before
        put(ordered[first], start + np.add.reduceat(values, first, dtype=dtype))
        return previous
    for turn in range(int(length.max())):
        now = order[rank == turn]
        where = addresses[now]
        old = get(where, dtype)
        previous[now] = old
        put(where, _changed(operation, old, [value[now] for value in operands]))
    return previous


def _changed(operation: str, old: Array, operands: list[Array]) -> Any:
    value = operands[0]
    match operation:
        case "add":
            return old + value
        case "min":
            return np.minimum(old, value)
        case "max":
            return np.maximum(old, value)
        case "and":
            return old & value
        case "or":
            return old | value
        case "xor":
            return old ^ value
        case "exch":
            return value
        case "cas":
            bits = f"u{old.dtype.itemsize}"
            return np.where(old.view(bits) == value.view(bits), operands[1], old)
        case "inc":
            return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
        case _:
            return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
