"""The numbers of equal outputs: a dictionary and a compiled table act as one dictionary."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes.engine.news.copies import Copies
from betimes.engine.news.digests.columns import words_of


def base(number: int) -> str:
    return blake2b(str(number).encode(), digest_size=12).hexdigest()


POOL = [base(number) for number in range(6)]
BASES = st.sampled_from(POOL)
STEPS = st.lists(
    st.tuples(st.just("take"), BASES)
    | st.tuples(st.just("take_all"), st.lists(BASES, min_size=1, max_size=6))
    | st.tuples(st.just("free"), st.integers(0, 99))
    | st.tuples(st.just("free_all"), st.integers(0, 99))
    | st.tuples(st.just("restart"), st.none()),
    max_size=20,
)


@given(STEPS)
def test_numbers_are_those_of_a_plain_dictionary(steps: list[tuple[str, object]]) -> None:
    copies, taken = Copies(), dict[str, set[int]]()

    def expected(name: str) -> int:
        mine = taken.setdefault(name, set())
        number = next(n for n in range(99) if n not in mine)
        mine.add(number)
        return number

    for what, which in steps:
        if what == "take":
            assert copies.take(str(which)) == expected(str(which))
        elif what == "take_all":
            assert isinstance(which, list)
            found = copies.take_all(words_of(which)).tolist()
            assert found == [expected(name) for name in which]
        elif what == "restart":
            copies = Copies(dict(copies.state_of()))
        else:
            held = sorted((name, n) for name, mine in taken.items() for n in mine)
            if what == "free_all":
                names = sorted({name for name, n in held if n == 0})[: int(str(which))]
                copies.free_all(words_of(names))
                for name in names:
                    taken[name].discard(0)
            elif held:
                name, number = held[int(str(which)) % len(held)]
                copies.free(name, number)
                taken[name].discard(number)
        bits = {name: sum(1 << n for n in mine) for name, mine in taken.items() if mine}
        assert copies.state_of() == bits
        assert [copies.get(name) for name in POOL] == [bits.get(name, 0) for name in POOL]


def test_many_come_and_go() -> None:
    copies, names = Copies(), [base(number) for number in range(20_000)]
    words = words_of(names)
    for low in range(0, len(names), 1000):
        assert not copies.take_all(words[:, low : low + 1000]).any()
    assert (copies.take_all(words[:, 500:1500]) == 1).all()
    gone = np.random.default_rng(0).permutation(len(names))[:15_000]
    copies.free_all(words[:, gone])
    left = {names[row]: 1 for row in set(range(len(names))) - set(gone.tolist())}
    for row in range(500, 1500):
        left[names[row]] = left.get(names[row], 0) | 2
    assert copies.state_of() == left
