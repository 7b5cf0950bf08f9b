"""Unpickler for untrusted files (`torch._weights_only_unpickler`).

It is a stack machine like Python's unpickler, with these differences:

- Globals come only from the table of `allowed_globals`, so that nothing is imported.
- Only callables in the table are called, with checked arguments.
- State is set only on dicts of the collections, as attributes, and on objects of classes that the user allowed. It
  is never set on a class, a function or a plain tensor.
- Opcodes that a pickle of allowed values does not have are refused: protocol 0, extension codes, out-of-band buffers.
- Lengths are compared with the remaining file before any allocation, and copies are counted (`limits`).

Nested and self-containing values need no recursion here.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum
from inspect import getattr_static
from pickle import UnpicklingError
from types import MemberDescriptorType
from typing import Any

from ..dispatch.tensor import Tensor
from ..runtime.public_name import path_below
from .allowed_globals import BLOCKED_MODULES, CALLS, NOT_SUPPORTED, find, full_name
from .rebuild import Load, set_attributes

MAX_DIGITS = 4000
"""Of an integer in text, as protocol 1 has large ones."""
NOT_ALLOWED = "was not an allowed global by default."
SHARED = (type, Enum)
"""What a state would change for everybody."""
DICTS = (dict, OrderedDict, Counter)


class RestrictedUnpickler:
    """Reads one pickle out of bytes.

    Args:
        data: The bytes.
        load: The state of this call of `load`.
        allowed: The user's classes and functions by their full names.
        persistent_load: Makes a storage of a persistent id, and checks it.
        position: The start of the pickle; after `read`, its end.
        encoding: The encoding of Python 2's strings.
    """

    def __init__(
        self,
        data: bytes,
        load: Load,
        allowed: dict[str, Any],
        persistent_load: Callable[[Any], Any],
        position: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        self._data = data
        self._load = load
        self._limits = load.limits
        self._allowed = allowed
        self._persistent_load = persistent_load
        self.position = position
        self._encoding = encoding
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._elements: list[list[Any]] = []

    def read(self) -> Any:
        """Run the pickle and return its object.

        Raises:
            UnpicklingError: The pickle is malformed, or uses something that is not allowed.
            EOFError: The pickle ends too early.
        """
        data, opcodes, stop = self._data, OPCODES, pickle.STOP[0]
        while self.position < len(data):
            code = data[self.position]
            self.position += 1
            if code == stop:
                return self._pop()
            run = opcodes.get(code)
            if run is None:
                raise UnpicklingError(f"Unsupported operand {code}")
            run(self)
        raise EOFError("load: the pickle ends too early")

    # Bytes

    def _take(self, count: int) -> bytes:
        begin = self.position
        if count > len(self._data) - begin:
            raise UnpicklingError("pickle data was truncated")
        self.position = begin + count
        return self._data[begin : self.position]

    def _number(self, format: struct.Struct) -> Any:
        return format.unpack(self._take(format.size))[0]

    def _line(self) -> bytes:
        begin = self.position
        end = self._data.find(b"\n", begin)
        if end < 0:
            raise UnpicklingError("pickle data was truncated")
        self.position = end + 1
        return self._data[begin:end]

    # The stack

    def _pop(self) -> Any:
        try:
            return self._stack.pop()
        except IndexError:
            raise UnpicklingError("the pickle takes more from its stack than is there") from None

    def _top(self) -> Any:
        if not self._stack:
            raise UnpicklingError("the pickle takes more from its stack than is there")
        return self._stack[-1]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _items(self) -> list[Any]:
        """Pop the items pushed since the last mark."""
        if not self._marked:
            raise UnpicklingError("the pickle has no mark where it needs one")
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _mark(self) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _pop_value(self) -> None:
        # As in Python: of a mark with nothing behind it, the mark.
        if self._stack:
            self._stack.pop()
        else:
            self._items()

    def _push_tuple(self) -> None:
        items = self._items()
        self._push(tuple(items))

    def _last(self, count: int) -> None:
        self._push(tuple([self._pop() for _ in range(count)][::-1]))

    # The memo

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise UnpicklingError(f"Memo value not found at index {index}")
        self._push(self._memo[index])

    def _put(self, index: int) -> None:
        self._memo[index] = self._top()

    # Text

    def _text(self, length: int) -> None:
        self._push(self._decoded(self._take(length)))

    def _decoded(self, data: bytes) -> str:
        try:
            return str(data, "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise UnpicklingError(f"the pickle has text that is no UTF-8: {error.reason}") from None

    def _old_string(self, length: int) -> None:
        if length < 0:
            raise UnpicklingError("BINSTRING pickle has negative byte count")
        data = self._take(length)
        if self._encoding == "bytes":
            self._push(data)
            return
        try:
            self._push(data.decode(self._encoding, "strict"))
        except UnicodeDecodeError as error:
            raise UnpicklingError(f"a string of Python 2 is no {self._encoding}: {error.reason}") from None

    # Integers

    def _long(self, length: int) -> None:
        if length < 0:
            raise UnpicklingError("LONG pickle has negative byte count")
        self._push(int.from_bytes(self._take(length), "little", signed=True))

    def _int(self) -> None:
        line = self._line()
        self._push(line == b"01" if line in (b"00", b"01") else self._integer(line))

    def _text_long(self) -> None:
        self._push(self._integer(self._line().removesuffix(b"L")))

    def _integer(self, line: bytes) -> int:
        digits = line.removeprefix(b"-")
        if len(digits) > MAX_DIGITS or not digits.isdigit():
            raise UnpicklingError(f"an integer of at most {MAX_DIGITS} digits expected")
        return int(line)

    # Containers

    def _append(self) -> None:
        self._extend([self._pop()], "append to")

    def _extend(self, items: list[Any], verb: str = "extend") -> None:
        target = self._top()
        if type(target) is not list:
            raise UnpicklingError(f"Can only {verb} lists, but got {type(target)}")
        target.extend(items)

    def _set_item(self) -> None:
        value = self._pop()
        self._set_items([self._pop(), value], "SETITEM")

    def _set_items(self, items: list[Any], opcode: str = "SETITEMS") -> None:
        target = self._top()
        if type(target) not in DICTS:
            raise UnpicklingError(
                f"Can only {opcode} for dict, collections.OrderedDict, collections.Counter, but got {type(target)}"
            )
        if len(items) % 2:
            raise UnpicklingError(f"{opcode} has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._limits.check_key(target, key)
            target[key] = value

    def _add_items(self) -> None:
        items = self._items()
        target = self._top()
        if type(target) is not set:
            raise UnpicklingError(f"Can only add items to sets, but got {type(target)}")
        for item in items:
            self._limits.check_key(target, item)
            target.add(item)

    def _frozenset(self) -> None:
        items = self._items()
        # Limits tell containers by their identities.
        self._elements.append(items)
        made = self._find("builtins", "frozenset")
        for item in items:
            self._limits.check_key(items, item)
        self._push(made(items))

    def _bytearray(self, length: int) -> None:
        self._push(bytearray(self._take(length)))

    # Globals, calls and states

    def _global(self) -> None:
        module = self._decoded(self._line())
        self._push(self._find(module, self._decoded(self._line())))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError("STACK_GLOBAL requires str")
        self._push(self._find(module, name))

    def _find(self, module: str, name: str) -> Any:
        dotted = full_name(module, name)
        if dotted.partition(".")[0] in BLOCKED_MODULES:
            raise UnpicklingError(
                f"Trying to load unsupported GLOBAL {shown(dotted)} whose module {shown(dotted.rpartition('.')[0])} "
                "is blocked."
            )
        entry = find(dotted)
        if entry is not None:
            return entry.value
        if dotted in self._allowed:
            return self._allowed[dotted]
        if dotted in NOT_SUPPORTED:
            raise UnpicklingError(f"Unsupported global: GLOBAL {dotted}: {NOT_SUPPORTED[dotted]}")
        name = shown(dotted.removeprefix("builtins."))
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {name} {NOT_ALLOWED} Please use "
            f"`triten.serialization.add_safe_globals([{name}])` or the `triten.serialization.safe_globals([{name}])` "
            "context manager to allowlist this global if you trust this class/function."
        )

    def _by_user(self, value: Any) -> bool:
        return any(value is each for each in self._allowed.values())

    def _reduce(self) -> None:
        args, function = self._pop(), self._pop()
        call = CALLS.get(id(function))
        if call is not None:
            self._push(call(self._load, args))
        elif self._by_user(function):
            _check_constructor(function)
            self._push(function(*self._checked_args(args)))
        else:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {_kind(function)}")

    def _new_object(self, keywords: Any = None) -> None:
        args, cls = self._pop(), self._pop()
        call = CALLS.get(id(cls))
        if call is not None and isinstance(cls, type) and not keywords:
            self._push(call(self._load, args))
        elif isinstance(cls, type) and self._by_user(cls):
            _check_constructor(cls)
            self._push(cls.__new__(cls, *self._checked_args(args), **(keywords or {})))
        else:
            raise UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                f"{_kind(cls)}"
            )

    def _new_object_with_keywords(self) -> None:
        keywords = self._pop()
        if type(keywords) is not dict or any(type(name) is not str for name in keywords):
            raise UnpicklingError("NEWOBJ_EX requires a dict of keyword arguments")
        self._new_object(keywords)

    def _checked_args(self, args: Any) -> tuple[Any, ...]:
        if type(args) is not tuple:
            raise UnpicklingError(f"the arguments of a call must be a tuple, not {type(args).__name__}")
        return args

    def _build(self) -> None:
        state, target = self._pop(), self._top()
        kind = type(target)
        if kind in (OrderedDict, Counter):
            self._set_attributes(target, state, hidden=kind)
        elif self._by_user(kind) and not isinstance(target, SHARED):
            self._set_state(target, kind, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                f"{kind}"
            )

    def _set_state(self, target: Any, kind: Any, state: Any) -> None:
        """Set the state of an object of a class that the user allowed."""
        if hasattr(kind, "__setstate__"):
            kind.__setstate__(target, state)
            return
        if isinstance(target, Tensor):
            set_attributes(self._load, target, state)
            return
        slots = None
        if type(state) is tuple and len(state) == 2:
            state, slots = state
        self._set_attributes(target, state)
        for name, value in self._attributes(slots).items() if slots else ():
            if not isinstance(getattr_static(kind, name, None), MemberDescriptorType):
                raise UnpicklingError(f"{kind.__name__} has no slot {shown(name)}")
            setattr(target, name, value)

    def _set_attributes(self, target: Any, state: Any, hidden: type | None = None) -> None:
        """Into the object's own dict, where they change no other object; none that hides a method of `hidden`."""
        if not state:
            return
        attributes = self._attributes(state)
        if hidden is not None:
            for name in attributes:
                if hasattr(hidden, name):
                    raise UnpicklingError(f"{hidden.__name__} takes no attribute {shown(name)} from a file")
        elif not hasattr(target, "__dict__"):
            raise UnpicklingError(f"{type(target)} has no attributes")
        vars(target).update(attributes)

    def _attributes(self, state: Any) -> dict[str, Any]:
        if type(state) is not dict or any(type(name) is not str for name in state):
            raise UnpicklingError("a state must be a dict of attributes by their names")
        self._limits.copy(len(state))
        return state

    def _persistent(self) -> None:
        self._push(self._persistent_load(self._pop()))

    # The pickle itself

    def _protocol(self) -> None:
        protocol = self._take(1)[0]
        if protocol > pickle.HIGHEST_PROTOCOL:
            raise UnpicklingError(f"unsupported pickle protocol: {protocol}")

    def _frame(self) -> None:
        length = self._number(UINT8)
        if length > len(self._data) - self.position:
            raise UnpicklingError("pickle exhausted before end of frame")


def _check_constructor(function: Any) -> None:
    """Raise UnpicklingError for a tensor class without its own constructor: triten's takes sizes and memory."""
    if not isinstance(function, type) or not issubclass(function, Tensor):
        return
    owner = next(each for each in function.__mro__ if "__new__" in vars(each))
    if owner is object or path_below(owner.__module__) is not None:
        raise UnpicklingError(
            f"{function.__name__}: a class of tensors is rebuilt by `_rebuild_from_type_v2`"
        )


def shown(name: str) -> str:
    """Shorten a file's text for a message, and escape unprintable characters."""
    short = name if len(name) <= 200 else f"{name[:200]}..."
    return short if short.isprintable() else ascii(short)


def _kind(value: Any) -> str:
    """Describe a value by its type, because its text may be as large as the file."""
    return f"{value}" if isinstance(value, type) else f"{type(value)}"


UINT1, UINT2 = struct.Struct("<B"), struct.Struct("<H")
UINT4, UINT8 = struct.Struct("<I"), struct.Struct("<Q")
INT4, FLOAT = struct.Struct("<i"), struct.Struct(">d")

Opcode = Callable[[RestrictedUnpickler], Any]


def _constant(value: Any) -> Opcode:
    return lambda machine: machine._push(value)


def _sized(run: Callable[[RestrictedUnpickler, Any], Any], length: struct.Struct) -> Opcode:
    """Build an opcode that is followed by a number."""
    return lambda machine: run(machine, machine._number(length))


M = RestrictedUnpickler
OPCODES: dict[int, Opcode] = {
    code[0]: run
    for code, run in {
        pickle.PROTO: M._protocol,
        pickle.FRAME: M._frame,
        pickle.MARK: M._mark,
        pickle.POP: M._pop_value,
        pickle.POP_MARK: M._items,
        pickle.DUP: lambda machine: machine._push(machine._top()),
        # Constants and numbers
        pickle.NONE: _constant(None),
        pickle.NEWTRUE: _constant(True),
        pickle.NEWFALSE: _constant(False),
        pickle.BININT: _sized(M._push, INT4),
        pickle.BININT1: _sized(M._push, UINT1),
        pickle.BININT2: _sized(M._push, UINT2),
        pickle.BINFLOAT: _sized(M._push, FLOAT),
        pickle.LONG1: _sized(M._long, UINT1),
        pickle.LONG4: _sized(M._long, INT4),
        pickle.INT: M._int,
        pickle.LONG: M._text_long,
        # Text and bytes
        pickle.SHORT_BINUNICODE: _sized(M._text, UINT1),
        pickle.BINUNICODE: _sized(M._text, UINT4),
        pickle.BINUNICODE8: _sized(M._text, UINT8),
        pickle.SHORT_BINBYTES: _sized(lambda machine, n: machine._push(machine._take(n)), UINT1),
        pickle.BINBYTES: _sized(lambda machine, n: machine._push(machine._take(n)), UINT4),
        pickle.BINBYTES8: _sized(lambda machine, n: machine._push(machine._take(n)), UINT8),
        pickle.BYTEARRAY8: _sized(M._bytearray, UINT8),
        pickle.SHORT_BINSTRING: _sized(M._old_string, UINT1),
        pickle.BINSTRING: _sized(M._old_string, INT4),
        # Containers
        pickle.EMPTY_TUPLE: _constant(()),
        pickle.EMPTY_LIST: lambda machine: machine._push([]),
        pickle.EMPTY_DICT: lambda machine: machine._push({}),
        pickle.EMPTY_SET: lambda machine: machine._push(set()),
        pickle.TUPLE: M._push_tuple,
        pickle.TUPLE1: lambda machine: machine._last(1),
        pickle.TUPLE2: lambda machine: machine._last(2),
        pickle.TUPLE3: lambda machine: machine._last(3),
        pickle.APPEND: M._append,
        pickle.APPENDS: lambda machine: machine._extend(machine._items()),
        pickle.SETITEM: M._set_item,
        pickle.SETITEMS: lambda machine: machine._set_items(machine._items()),
        pickle.ADDITEMS: M._add_items,
        pickle.FROZENSET: M._frozenset,
        # The memo
        pickle.BINGET: _sized(M._get, UINT1),
        pickle.LONG_BINGET: _sized(M._get, UINT4),
        pickle.BINPUT: _sized(M._put, UINT1),
        pickle.LONG_BINPUT: _sized(M._put, UINT4),
        pickle.MEMOIZE: lambda machine: machine._put(len(machine._memo)),
        # Globals, calls and states
        pickle.GLOBAL: M._global,
        pickle.STACK_GLOBAL: M._stack_global,
        pickle.REDUCE: M._reduce,
        pickle.NEWOBJ: M._new_object,
        pickle.NEWOBJ_EX: M._new_object_with_keywords,
        pickle.BUILD: M._build,
        pickle.BINPERSID: M._persistent,
    }.items()
}
"""What is read. The others, such as INST, OBJ, EXT1 and NEXT_BUFFER, are refused."""
