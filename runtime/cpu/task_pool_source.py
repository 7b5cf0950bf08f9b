"""LLVM IR of threads that share the parts of a loop without Python: no part waits for the GIL.

A pool is an array of int64; words that several threads write are in cache lines of their own (`WORDS`). A thread waits
for work by polling the generation for `SPINS`, some 100 us, and then sleeps on a futex. To wake takes some 50 us, and
costs the waking thread 10 us, so little work after a pause wakes no thread.

The sharing thread opens the work, takes parts itself, closes the work when no part is left, and waits for the threads
that are inside. A thread that arrives after closing leaves again, so the sharing thread never waits for a late one. If
work is already shared, a second caller computes its work alone.
"""

from __future__ import annotations

from .calling_convention import DATA, HEADER

WORDS = {
    name: 8 * line + word
    for line, names in enumerate(
        (
            *(("generation",), ("sleepers",), ("busy",), ("open",), ("inside",), ("next",)),
            ("count", "function", "context", "stopped", "threads", "last"),
        )
    )
    for word, name in enumerate(names)
}
"""Position of each word of a pool."""
LENGTH = 64
"""Words of a pool."""
SPINS = 4000
"""The number of polls of the generation, with a pause between two."""
CLOCKS = {"x86_64": ("@llvm.readcyclecounter", 150_000), "aarch64": ("@llvm.readsteadycounter", 3_000)}
"""For each machine, LLVM's clock intrinsic, and its count in some 60 us."""
MAX_POINTERS = 64
"""Arrays of a loop at most, a workspace among them: `share` refuses more. Schedules keep kernels below it."""
TOO_MANY = f"a loop that threads share has at most {MAX_POINTERS} arrays"
FUTEX = {"x86_64": 202, "aarch64": 98}
"""The number of the system call, by machine."""
PAUSES = {"x86_64": ("@llvm.x86.sse2.pause", ""), "aarch64": ("@llvm.aarch64.hint", "i32 1")}
"""LLVM's function for a pause and its argument, by machine."""
WAIT, WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, of one process


def worker_text(machine: str) -> str:
    """Return the loop of a thread, ``worker(pool, number)``, with its number in an array; it ends when the
    pool stops."""
    pause, argument = PAUSES[machine]
    return f"""{HEADER}
declare i64 @syscall(i64, ...)
declare void {pause}({argument.partition(" ")[0]})

define internal void @work(ptr %pool, i64 %number) {{
entry:
{_pointers()}
  br label %check
check:
  %seen = phi i64 [0, %entry], [%now, %leave]
  br label %spin
spin:
  %i = phi i64 [0, %check], [%i_next, %again]
  %g = load atomic i64, ptr %generation acquire, align 8
  %is_new = icmp ne i64 %g, %seen
  br i1 %is_new, label %come, label %again
again:
  call void {pause}({argument})
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, {SPINS}
  br i1 %more, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %low = trunc i64 %seen to i32
{_futex(machine, WAIT, "%low")}
  %s1 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %woken = load atomic i64, ptr %generation seq_cst, align 8
  %is_awake = icmp ne i64 %woken, %seen
  br i1 %is_awake, label %come, label %sleep
come:
  %now = load atomic i64, ptr %generation seq_cst, align 8
  %is_stopped = load atomic i64, ptr %stopped seq_cst, align 8
  %ends = icmp ne i64 %is_stopped, 0
  br i1 %ends, label %done, label %enter
enter:
  %e = atomicrmw add ptr %inside, i64 1 seq_cst
  %is_open = load atomic i64, ptr %open seq_cst, align 8
  %works = icmp ne i64 %is_open, 0
  br i1 %works, label %job, label %leave
job:
  %f = load ptr, ptr %function
  %c = load ptr, ptr %context
  %n = load i64, ptr %count
  br label %claim
{_claims("%number", "leave")}
leave:
  %l = atomicrmw sub ptr %inside, i64 1 seq_cst
  br label %check
done:
  ret void
}}

define ptr @call(ptr %self, ptr %arguments, i64 %count) {{
{_array("pool", 0)}
{_array("numbers", 1)}
  %number = load i64, ptr %numbers
  %state = call ptr @PyEval_SaveThread()
  call void @work(ptr %pool, i64 %number)
  call void @PyEval_RestoreThread(ptr %state)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}
"""


def share_text(machine: str) -> str:
    """Return the function that shares a loop, ``share(pool, numbers, parts, *arrays)``.

    `parts` are the numbers of all parts. `numbers` are, in order:

    - The address of the loop's `part`.
    - The number of parts, and of numbers in each.
    - The position of the workspace array (-1 if none), and its bytes for each thread.
    - The flag to wake threads after a pause.
    """
    (pause, argument), (clock, burst) = PAUSES[machine], CLOCKS[machine]
    return f"""{HEADER}
declare i64 @syscall(i64, ...)
declare void {pause}({argument.partition(" ")[0]})
declare i32 @sched_yield()
declare i64 {clock}()
declare void @PyErr_SetString(ptr, ptr)
@PyExc_RuntimeError = external global ptr
@too_many = private constant [{len(TOO_MANY) + 1} x i8] c"{TOO_MANY}\\00"

define internal void @run(ptr %pool, ptr %f, ptr %c, i64 %n, i64 %wakes) {{
entry:
{_pointers()}
  %all = load i64, ptr %threads
  %is_alone = icmp sle i64 %all, 1
  %is_one = icmp sle i64 %n, 1
  %alone = or i1 %is_alone, %is_one
  br i1 %alone, label %serial, label %look
look:
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  %begun = call i64 {clock}()
  %ended = load atomic i64, ptr %last monotonic, align 8
  %since = sub i64 %begun, %ended
  %paused = icmp ugt i64 %since, {burst}
  %is_little = icmp eq i64 %wakes, 0
  %lets = and i1 %paused, %is_little
  %lets_sleep = and i1 %lets, %any
  br i1 %lets_sleep, label %serial, label %try
try:
  %took = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst
  %is_mine = extractvalue {{ i64, i1 }} %took, 1
  br i1 %is_mine, label %publish, label %serial
serial:
  %k = phi i64 [0, %entry], [0, %look], [0, %try], [%k_next, %each]
  %has = icmp slt i64 %k, %n
  br i1 %has, label %each, label %end
each:
  call void %f(ptr %c, i64 %k, i64 0)
  %k_next = add i64 %k, 1
  br label %serial
publish:
  store ptr %f, ptr %function
  store ptr %c, ptr %context
  store i64 %n, ptr %count
  store atomic i64 0, ptr %next seq_cst, align 8
  store atomic i64 1, ptr %open seq_cst, align 8
  %g = atomicrmw add ptr %generation, i64 1 seq_cst
  %still = load atomic i64, ptr %sleepers seq_cst, align 8
  %sleep = icmp ne i64 %still, 0
  br i1 %sleep, label %wake, label %claim
wake:
  %others = sub i64 %n, 1
  %few = trunc i64 %others to i32
{_futex(machine, WAKE, "%few")}
  br label %claim
{_claims("0", "close")}
close:
  store atomic i64 0, ptr %open seq_cst, align 8
  br label %wait
wait:
  %w = phi i64 [0, %close], [%w_next, %waits], [0, %yields]
  %there = load atomic i64, ptr %inside seq_cst, align 8
  %is_empty = icmp eq i64 %there, 0
  br i1 %is_empty, label %free, label %pause
pause:
  call void {pause}({argument})
  %w_next = add i64 %w, 1
  %is_long = icmp sgt i64 %w_next, {SPINS}
  br i1 %is_long, label %yields, label %waits
waits:
  br label %wait
yields:
  %y = call i32 @sched_yield()
  br label %wait
free:
  store atomic i64 0, ptr %busy seq_cst, align 8
  br label %end
end:
  %now = call i64 {clock}()
  store atomic i64 %now, ptr %last monotonic, align 8
  ret void
}}

%context = type {{ ptr, ptr, i64, ptr, i64, i64, i64 }}

define internal void @one(ptr %c, i64 %i, i64 %thread) {{
entry:
  %own = alloca [{MAX_POINTERS} x ptr]
{_fields()}
  br label %copy
copy:
  %j = phi i64 [0, %entry], [%j_next, %copied]
  %from = getelementptr ptr, ptr %pointers, i64 %j
  %to = getelementptr ptr, ptr %own, i64 %j
  %pointer = load ptr, ptr %from
  %is_room = icmp eq i64 %j, %place
  %offset = mul i64 %thread, %size
  %by = select i1 %is_room, i64 %offset, i64 0
  %moved = getelementptr i8, ptr %pointer, i64 %by
  store ptr %moved, ptr %to
  br label %copied
copied:
  %j_next = add i64 %j, 1
  %more = icmp slt i64 %j_next, %arrays
  br i1 %more, label %copy, label %go
go:
  %at = mul i64 %i, %width
  %row = getelementptr i64, ptr %parts, i64 %at
  call void %f(ptr %row, ptr %own)
  ret void
}}

define ptr @call(ptr %self, ptr %arguments, i64 %count) {{
entry:
{_array("pool", 0)}
{_array("numbers", 1)}
{_array("parts", 2)}
  %pointers = alloca [{MAX_POINTERS} x ptr]
  %arrays = sub i64 %count, 3
  %is_bounded = icmp ule i64 %arrays, {MAX_POINTERS}
  br i1 %is_bounded, label %load, label %refuse
refuse:
  %kind = load ptr, ptr @PyExc_RuntimeError
  call void @PyErr_SetString(ptr %kind, ptr @too_many)
  ret ptr null
load:
  %j = phi i64 [0, %entry], [%j_next, %load]
  %place = add i64 %j, 3
  %at = getelementptr ptr, ptr %arguments, i64 %place
  %object = load ptr, ptr %at
  %data_at = getelementptr i8, ptr %object, i64 {DATA}
  %data = load ptr, ptr %data_at
  %to = getelementptr ptr, ptr %pointers, i64 %j
  store ptr %data, ptr %to
  %j_next = add i64 %j, 1
  %more = icmp slt i64 %j_next, %arrays
  br i1 %more, label %load, label %loaded
loaded:
  %c = alloca %context
  %f = load ptr, ptr %numbers
{_stored()}
  %n_at = getelementptr i64, ptr %numbers, i64 1
  %n = load i64, ptr %n_at
  %wakes_at = getelementptr i64, ptr %numbers, i64 5
  %wakes = load i64, ptr %wakes_at
  %state = call ptr @PyEval_SaveThread()
  call void @run(ptr %pool, ptr @one, ptr %c, i64 %n, i64 %wakes)
  call void @PyEval_RestoreThread(ptr %state)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}
"""


FIELDS = ("f ptr", "parts ptr", "width i64", "pointers ptr", "arrays i64", "place i64", "size i64")
"""Fields of a context, with their types."""


def _fields() -> str:
    lines = []
    for i, field in enumerate(FIELDS):
        name, kind = field.split()
        lines.append(f"  %{name}_at = getelementptr %context, ptr %c, i32 0, i32 {i}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}_at")
    return "\n".join(lines)


def _stored() -> str:
    lines = []
    for name, i in (("width", 2), ("where", 3), ("bytes", 4)):
        lines.append(f"  %{name}_p = getelementptr i64, ptr %numbers, i64 {i}")
        lines.append(f"  %{name} = load i64, ptr %{name}_p")
    values = (
        "ptr %f",
        "ptr %parts",
        "i64 %width",
        "ptr %pointers",
        "i64 %arrays",
        "i64 %where",
        "i64 %bytes",
    )
    for i, value in enumerate(values):
        lines.append(f"  %c{i} = getelementptr %context, ptr %c, i32 0, i32 {i}")
        lines.append(f"  store {value}, ptr %c{i}")
    return "\n".join(lines)


def _claims(thread: str, after: str) -> str:
    """Take one part after the other, until none is left."""
    return f"""claim:
  %part = atomicrmw add ptr %next, i64 1 seq_cst
  %has_part = icmp slt i64 %part, %n
  br i1 %has_part, label %do, label %{after}
do:
  call void %f(ptr %c, i64 %part, i64 {thread})
  br label %claim"""


def _futex(machine: str, operation: int, value: str) -> str:
    arguments = (
        f"i64 {FUTEX[machine]}, ptr %generation, i64 {operation}, i32 {value}, ptr null, ptr null, i32 0"
    )
    return f"  %r = call i64 (i64, ...) @syscall({arguments})"


def _pointers() -> str:
    return "\n".join(
        f"  %{name} = getelementptr i64, ptr %pool, i64 {index}" for name, index in WORDS.items()
    )


def _array(name: str, index: int) -> str:
    return "\n".join(
        [
            f"  %{name}_at = getelementptr ptr, ptr %arguments, i64 {index}",
            f"  %{name}_object = load ptr, ptr %{name}_at",
            f"  %{name}_data = getelementptr i8, ptr %{name}_object, i64 {DATA}",
            f"  %{name} = load ptr, ptr %{name}_data",
        ]
    )
