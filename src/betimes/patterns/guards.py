"""Guards: when a transition may be taken, as a formula over questions about an event.

Questions are numbered: does the event fit this step, does it end that loop? A guard is a sequence
of clauses, all of which must hold. A clause is a sequence of answers, one of which must be right.
A guard without clauses always holds; a guard with an empty clause never does.
"""

from __future__ import annotations

from collections.abc import Sequence

Answer = tuple[int, bool]
"""The number of a question, and whether yes or no is right."""
Clause = tuple[Answer, ...]
Guard = tuple[Clause, ...]

ALWAYS: Guard = ()
NEVER: Guard = ((),)


def both(*guards: Guard) -> Guard:
    """All of them hold.

    >>> yes, no = ((1, True),), ((1, False),)
    >>> both((yes,), ALWAYS, (yes,)) == (yes,), both((yes,), (no,)) == NEVER
    (True, True)
    """
    clauses = tuple(dict.fromkeys(clause for guard in guards for clause in guard))
    for clause in clauses:
        if not clause or (len(clause) == 1 and opposite(clause) in clauses):
            return NEVER
    return clauses


def either(one: Guard, other: Guard) -> Guard:
    """At least one of them holds.

    >>> either((((1, True),),), NEVER), either((((1, True),),), ALWAYS)
    ((((1, True),),), ())
    """
    return tuple(tuple(dict.fromkeys(left + right)) for left in one for right in other)


def opposite(clause: Clause) -> Clause:
    return tuple((question, not right) for question, right in clause)


def neither(guard: Guard) -> Guard:
    """It does not hold. Only for guards whose clauses are single answers; no others are negated.

    >>> neither((((1, True),), ((2, False),)))
    (((1, False), (2, True)),)
    >>> neither(ALWAYS) == NEVER, neither(NEVER) == ALWAYS
    (True, True)
    """
    if guard == NEVER:
        return ALWAYS
    return (tuple(answer for clause in guard for answer in opposite(clause)),)


def questions(guards: Sequence[Guard]) -> frozenset[int]:
    """The questions that the guards depend on."""
    return frozenset(number for guard in guards for clause in guard for number, _ in clause)
