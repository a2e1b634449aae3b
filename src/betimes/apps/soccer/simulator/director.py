"""The director: moves the match from contact to contact.

At each contact it drafts what the player might do, works out where the ball and people would go,
and takes the first draft that passes the checks. So the match is a chain of plans that work, and
what happened is known exactly. The *manner* of a contact decides what can come after it:

- `play`: anything: dribble, pass, shot, a pass that is intercepted, a ball over the line;
- `deflect`, `parry`: the ball bounces off a defender or a keeper;
- `catch`: a keeper holds the ball; `release`: and kicks it;
- `throw_in`, `corner`, `goal_kick`, `kick_off`: play restarts.

A simulated match is livelier than a real one: there is a shot about every ten seconds. What was
rare so far is tried more often, so that a short snippet has some of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from betimes.apps.soccer.simulator.aiming import shooting_place
from betimes.apps.soccer.simulator.checks import sound_path, sound_people
from betimes.apps.soccer.simulator.kicks import Kicks
from betimes.apps.soccer.simulator.physics import STEP, TICKS, Floats, run
from betimes.apps.soccer.simulator.restarts import Restarts
from betimes.apps.soccer.simulator.scene import (
    Contact,
    Path,
    Piece,
    Plan,
    Scene,
    Swing,
    ball_at,
    ball_phase,
    box_of,
    crossing_of,
)
from betimes.apps.soccer.simulator.tactics import Orders, Tactics
from betimes.apps.soccer.simulator.truth import Fact, Hit
from betimes.apps.soccer.stadium import Stadium

_CHANCES = 36
"""One of many random streams; with it, the first 65 s of seed 1 have some of everything."""
_ATTEMPTS = 400
_OPENING = 200
"""Steps before the first kick-off."""
_HARDEST = 0.8
"""The smallest change of velocity (m/s) that a contact makes."""

Draft = Callable[[], Plan | None]
Moves = tuple[Floats, Floats, Floats]


class Director:
    """Produces the pieces of a match."""

    def __init__(self, stadium: Stadium, seed: int) -> None:
        self._stadium = stadium
        self._rng = np.random.default_rng([seed, _CHANCES])
        self._tactics = Tactics(stadium)
        self._restarts = Restarts(stadium, self._tactics)
        self._box = box_of(stadium)
        self._shots = dict.fromkeys(("goal", "save", "wide", "block"), 0)
        self._from: int | None = None
        """Who has just passed the ball to the player who has it."""
        self._thrown = 0
        """The step of the last throw-in."""

    def pieces(self) -> Iterator[Piece]:
        """The pieces of the match, endlessly."""
        scene, contact = self._opening()
        yield self._waiting(scene)
        scene.step += _OPENING
        while True:
            plan, moves = self._planned(scene, contact)
            yield from self._cut(scene, contact, plan, moves)
            steps = plan.path.ticks // TICKS
            places, velocities, headings = moves
            if plan.next.manner == "throw_in":
                self._thrown = scene.step
            passed = plan.next.person != contact.person and not plan.restart
            self._from = contact.person if passed else None
            balls = scene.balls.copy()
            if plan.switch is not None:
                balls[scene.active] = plan.path.places[plan.switch - 1]
                scene.active = plan.active
            scene = Scene(
                scene.step + steps, places[steps], velocities[steps], headings[steps],
                plan.meeting.copy(), plan.motion.copy(), scene.active, balls,
            )  # fmt: skip
            contact = plan.next

    def _opening(self) -> tuple[Scene, Contact]:
        """Before the kick-off: everyone in position, the first ball on the spot."""
        tactics, pitch = self._tactics, self._stadium.pitch
        place = tactics.kick_off()
        centre = np.array([*pitch.centre, 0.0])
        striker = tactics.nearest(place, centre[:2], tactics.field & (tactics.teams == 1))
        place[striker] = centre[:2] - [0.0, 0.35 * np.sign(tactics.attacked(1).y)]
        balls = np.zeros((len(self._stadium.balls), 3))
        balls[:, 0] = np.where(np.arange(len(balls)) % 2, pitch.right + 4.0, pitch.left - 4.0)
        balls[:, 1] = np.linspace(-20.0, 20.0, len(balls))
        balls[0] = centre
        still = np.zeros_like(place)
        facing = np.tile([1.0, 0.0], (len(place), 1))
        scene = Scene(0, place, still, facing, centre, np.zeros(3), 0, balls)
        return scene, Contact(striker, "kick_off")

    def _waiting(self, scene: Scene) -> Piece:
        ticks = _OPENING * TICKS
        still = np.zeros((ticks, 3))
        path = Path(still + scene.ball, still, still, np.empty(0, np.int64), None)

        def same(rows: Floats) -> Floats:
            return np.repeat(rows[None], _OPENING, axis=0)

        return Piece(
            0, scene.active, scene.balls, path, same(scene.place), same(scene.velocity),
            same(scene.heading), [], [],
        )  # fmt: skip

    def _planned(self, scene: Scene, contact: Contact) -> tuple[Plan, Moves]:
        """The first draft that works."""
        kicks = Kicks(
            scene, contact.person, self._tactics, self._restarts, self._box, self._rng
        )  # fmt: skip
        for attempt in range(_ATTEMPTS):
            name, draft = self._choice(kicks, contact, attempt)
            plan = draft()
            if plan is None:
                continue
            kick = np.linalg.norm(plan.path.velocities[TICKS] - scene.motion)
            sound = sound_path(plan, self._stadium, contact.person, kicks.goal)
            if kick < _HARDEST or not sound:
                continue
            moves = self._moved(scene, plan)
            if sound_people(plan, moves[0], contact.person):
                if name in self._shots:
                    self._shots[name] += 1
                return plan, moves
        raise RuntimeError(
            f"expected some continuation of the match at step {scene.step} to work, but none of "
            f"{_ATTEMPTS} did; this is a bug in the simulator"
        )

    def _choice(self, kicks: Kicks, contact: Contact, attempt: int) -> tuple[str, Draft]:
        """One of the things that make sense, chosen at random."""
        rng, manner = self._rng, contact.manner
        if manner == "catch" and attempt < _ATTEMPTS // 4:
            return "hold", kicks.hold
        weights: dict[str, tuple[float, Draft]] = {
            "pass": (4.0, kicks.ground_pass),
            "lofted": (1.0, kicks.lofted_pass),
        }
        if manner in ("deflect", "parry", "catch"):
            weights = {"loose": (1.0, kicks.loose), "end": (1.0, lambda: kicks.out(end=True))}
        elif manner == "throw_in":
            weights = {"throw": (1.0, kicks.throw)}
        elif manner == "corner":
            weights = {"cross": (3.0, kicks.cross), "pass": (1.0, kicks.ground_pass)}
        elif manner == "play":
            weights |= self._in_play(kicks)
        if attempt > _ATTEMPTS // 4:
            weights["clear"] = (2.0, kicks.out)
            weights["anything"] = (2.0, kicks.loose)
        names = list(weights)
        shares = np.array([weights[name][0] for name in names])
        name = names[int(rng.choice(len(names), p=shares / shares.sum()))]
        return name, weights[name][1]

    def _in_play(self, kicks: Kicks) -> dict[str, tuple[float, Draft]]:
        """What a field player may do apart from passing."""
        weights: dict[str, tuple[float, Draft]] = {
            "dribble": (3.0, kicks.dribble),
            "intercepted": (1.4, kicks.intercepted),
            "tackled": (0.4, kicks.tackled),
            "out": (0.1 + 0.02 * (kicks.scene.step - self._thrown) * STEP, kicks.out),
        }
        before = self._from
        if before is not None and self._tactics.teams[before] == kicks.team:
            weights["back"] = (0.8, lambda: kicks.pass_back(before))
        if kicks.wants_shot():
            drafts = {
                "goal": kicks.goal_shot,
                "save": kicks.saved_shot,
                "wide": kicks.wide_shot,
                "block": kicks.blocked_shot,
            }
            least = min(self._shots.values())
            for name, draft in drafts.items():
                weights[name] = (12.0 / (1 + self._shots[name] - least) ** 2, draft)
        return weights

    def _moved(self, scene: Scene, plan: Plan) -> Moves:
        """Where everyone goes in the meantime."""
        tactics, steps = self._tactics, plan.path.ticks // TICKS
        taker = plan.next.person
        team = int(tactics.teams[taker])
        orders = tactics.orders(plan.meeting[:2], team, self._rng, restart=plan.restart)
        if plan.next.manner == "kick_off":
            orders.point[:] = tactics.kick_off()
        else:
            self._press(scene, orders, plan, team)
        orders.arrive(taker, plan.body, steps)
        bounces = plan.path.bounces
        at = np.column_stack([bounces / TICKS, plan.path.places[bounces, :2]])
        ball = np.ascontiguousarray(plan.path.places[::TICKS])
        return run(
            scene.place, scene.velocity, scene.heading, orders.order, orders.point, orders.fastest,
            orders.when, ball, taker, plan.meeting, at, steps,
        )  # fmt: skip

    def _press(self, scene: Scene, orders: Orders, plan: Plan, team: int) -> None:
        """The nearest opponents stay between the ball and their goal."""
        tactics = self._tactics
        rivals = tactics.field & (tactics.teams == 3 - team)
        goal = tactics.defended(3 - team)
        way = np.array([goal.centre, goal.y]) - plan.meeting[:2]
        way /= max(float(np.hypot(*way)), 1e-9)
        for low, high in ((1.0, 3.0), (3.5, 6.0)):
            distance = 8.0 if plan.restart else self._rng.uniform(low, high)
            rival = tactics.nearest(scene.place, plan.meeting[:2] + way * distance, rivals)
            rivals[rival] = False
            if shooting_place(plan.meeting, goal) and not plan.restart:
                # In the way of a shot.
                orders.arrive(rival, plan.meeting[:2] + way * distance, plan.path.ticks // TICKS)
            else:
                orders.keep(rival, way * distance)

    def _cut(self, scene: Scene, contact: Contact, plan: Plan, moves: Moves) -> Iterator[Piece]:
        """The plan as pieces with one active ball each."""
        steps = plan.path.ticks // TICKS
        cut = steps if plan.switch is None else plan.switch // TICKS
        spans = [(0, cut, scene.active), (cut, steps, plan.active)]
        balls = scene.balls
        for start, stop, active in spans:
            if start == stop:
                continue
            ticks = slice(start * TICKS, stop * TICKS)
            path = plan.path
            part = Path(
                path.places[ticks], path.velocities[ticks], path.accelerations[ticks],
                path.bounces if start == 0 else path.bounces[:0], path.crossing,
            )  # fmt: skip
            places, velocities, headings = (array[start:stop] for array in moves)
            facts = self._facts(scene, contact, plan) if start == 0 else []
            swings = self._swings(scene, contact) if start == 0 else []
            yield Piece(
                scene.step + start, active, balls, part, places, velocities, headings, facts,
                swings,
            )  # fmt: skip
            balls = balls.copy()
            balls[active] = path.places[stop * TICKS - 1]

    def _facts(self, scene: Scene, contact: Contact, plan: Plan) -> list[Fact]:
        sid = self._stadium.balls[scene.active]
        ts = scene.step * round(STEP * 1e6) + ball_phase(scene.active)
        path = plan.path
        hit = Hit(
            ts, contact.person, sid, ball_at(path, 0), ball_at(path, TICKS), contact.part
        )  # fmt: skip
        crossing = crossing_of(path, self._stadium, sid, ts)
        return [hit] if crossing is None else [hit, crossing]

    def _swings(self, scene: Scene, contact: Contact) -> list[Swing]:
        x, y, z = map(float, scene.ball)
        body = tuple(map(float, scene.place[contact.person]))
        return [Swing(scene.step, contact.person, contact.part, (x, y, z), (body[0], body[1]))]
