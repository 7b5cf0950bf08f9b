"""Text of the loop of `row_addition`."""

from __future__ import annotations

from ...runtime.cpu.calling_convention import HEADER, loaded_number, python_call

_TYPES = {"float32": "float", "float64": "double"}


def row_addition_text(dtype: str) -> str:
    """Return the module of the function ``matrix += vector`` for each row; its numbers are rows and columns."""
    type_ = _TYPES[dtype]
    lines = [
        "define void @loop(ptr %g, ptr noalias %matrix, ptr noalias %vector) {",
        "entry:",
        *loaded_number("rows", 0),
        *loaded_number("columns", 1),
        "  %no_rows = icmp sle i64 %rows, 0",
        "  %no_columns = icmp sle i64 %columns, 0",
        "  %empty = or i1 %no_rows, %no_columns",
        "  br i1 %empty, label %done, label %row",
        "row:",
        "  %i = phi i64 [0, %entry], [%next_i, %row_end]",
        "  %offset = mul i64 %i, %columns",
        f"  %line = getelementptr {type_}, ptr %matrix, i64 %offset",
        "  br label %column",
        "column:",
        "  %j = phi i64 [0, %row], [%next_j, %column]",
        f"  %element = getelementptr {type_}, ptr %line, i64 %j",
        f"  %addend = getelementptr {type_}, ptr %vector, i64 %j",
        f"  %a = load {type_}, ptr %element",
        f"  %b = load {type_}, ptr %addend",
        f"  %sum = fadd {type_} %a, %b",
        f"  store {type_} %sum, ptr %element",
        "  %next_j = add i64 %j, 1",
        "  %is_last_column = icmp eq i64 %next_j, %columns",
        "  br i1 %is_last_column, label %row_end, label %column",
        "row_end:",
        "  %next_i = add i64 %i, 1",
        "  %is_last_row = icmp eq i64 %next_i, %rows",
        "  br i1 %is_last_row, label %done, label %row",
        "done:",
        "  ret void",
        "}",
    ]
    return HEADER + "\n".join(lines) + "\n" + python_call(2, 2)
