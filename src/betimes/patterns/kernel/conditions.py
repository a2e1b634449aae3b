"""Conditions that look at earlier steps: programs for a stack machine."""

from __future__ import annotations

import numpy as np

from betimes.model.compiling import compiled

from betimes.patterns.kernel.layout import (  # isort: skip
    ABSOLUTE, ADD, AND, CONSTANT, DIVIDE, EARLIER, EQUAL, FLOOR, Floats, GREATER, IS_NULL, Ints,
    LESS, LESS_EQUAL, MINUS, MODULO, MULTIPLY, NOT, OR, OWN, PREVIOUS, SUBTRACT, UNEQUAL,
)  # fmt: skip


@compiled
def _nth(bindings: Ints, last: int, back: int) -> int:
    """The binding `back` places before the last one of a run."""
    for _ in range(back):
        last = bindings[PREVIOUS, last]
    return last


@compiled
def _truth(value: float) -> float:
    if np.isnan(value):
        return np.nan
    return 1.0 if value != 0.0 else 0.0


@compiled
def _binary(op: int, a: float, b: float) -> float:
    if op == AND:
        a, b = _truth(a), _truth(b)
        if a == 0.0 or b == 0.0:
            return 0.0
        return np.nan if np.isnan(a) or np.isnan(b) else 1.0
    if op == OR:
        a, b = _truth(a), _truth(b)
        if a == 1.0 or b == 1.0:
            return 1.0
        return np.nan if np.isnan(a) or np.isnan(b) else 0.0
    if np.isnan(a) or np.isnan(b):
        return np.nan
    if op == ADD:
        return a + b
    if op == SUBTRACT:
        return a - b
    if op == MULTIPLY:
        return a * b
    if op == DIVIDE:
        return np.nan if b == 0.0 else a / b
    if op == FLOOR:
        return np.nan if b == 0.0 else np.floor(a / b)
    if op == MODULO:
        return np.nan if b == 0.0 else a - b * np.floor(a / b)
    if op == EQUAL:
        return 1.0 if a == b else 0.0
    if op == UNEQUAL:
        return 1.0 if a != b else 0.0
    if op == LESS:
        return 1.0 if a < b else 0.0
    if op == LESS_EQUAL:
        return 1.0 if a <= b else 0.0
    if op == GREATER:
        return 1.0 if a > b else 0.0
    return 1.0 if a >= b else 0.0


@compiled
def holds(
    program: Ints, constants: Floats, own: Floats, i: int,
    bindings: Ints, values: Floats, last: int, state: int, stack: Floats,
) -> bool:  # fmt: skip
    """Whether a condition holds for event `i` and a run that has bound `state` steps."""
    top = 0
    for at in range(program.shape[1]):
        op, a, b = program[0, at], program[1, at], program[2, at]
        if op == CONSTANT:
            stack[top] = constants[a]
            top += 1
        elif op == OWN:
            stack[top] = own[a, i]
            top += 1
        elif op == EARLIER:
            stack[top] = values[b, _nth(bindings, last, state - 1 - a)]
            top += 1
        elif op == MINUS:
            stack[top - 1] = -stack[top - 1]
        elif op == ABSOLUTE:
            stack[top - 1] = abs(stack[top - 1])
        elif op == NOT:
            stack[top - 1] = 1.0 - _truth(stack[top - 1])
        elif op == IS_NULL:
            stack[top - 1] = 1.0 if np.isnan(stack[top - 1]) else 0.0
        else:
            top -= 1
            stack[top - 1] = _binary(op, stack[top - 1], stack[top])
    return _truth(stack[0]) == 1.0
