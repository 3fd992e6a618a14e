from __future__ import annotations

import math

import numpy as np
import pytest

from models.acas import mdp
from models.acas.mdp import Grid, Speeds


def test_bracket_interpolates_and_clamps() -> None:
    below, weight = mdp.bracket(np.array([-5.0, 0.0, 1.5, 10.0, 99.0]), np.array([0.0, 2.0, 10.0]))
    assert below.tolist() == [0, 0, 0, 1, 1]
    assert weight.tolist() == [0.0, 0.0, 0.75, 1.0, 1.0]


def test_wrapped_takes_one_turn_off_or_on() -> None:
    angles = np.array([-math.pi - 0.25, -math.pi, 0.5, math.pi, math.pi + 0.25])
    assert mdp.wrapped(angles) == pytest.approx([math.pi - 0.25, -math.pi, 0.5, math.pi, -math.pi + 0.25])


def test_default_grid_has_the_published_cut_points() -> None:
    grid = Grid()
    assert grid.shape == (41, 32, 41)
    assert (grid.rho_ft[0], grid.rho_ft[10], grid.rho_ft[-1]) == (0, 510, 56000)
    assert np.diff(grid.theta_rad) == pytest.approx(np.full(40, math.tau / 40))


@pytest.mark.parametrize("turns", [*mdp.OWN_TURNS, mdp.INTRUDER_TURNS])
def test_probabilities_of_turns_sum_to_one(turns: mdp.Turns) -> None:
    assert sum(turns.values()) == pytest.approx(1.0)


def test_advisories_turn_to_their_side_and_mirror_each_other() -> None:
    means = [sum(rate * p for rate, p in turns.items()) for turns in mdp.OWN_TURNS]
    assert means == pytest.approx([0.0, 1.5625, -1.5625, 3.0, -3.0])


def test_transition_preserves_probability(rng: np.random.Generator) -> None:
    transition = mdp.transition(Grid(), Speeds(), own_turn_rad=rng.uniform(-0.1, 0.1))
    ones = np.ones(Grid().shape)
    assert transition.expected(ones) == pytest.approx(ones)


def test_head_on_flight_closes_at_the_sum_of_the_speeds() -> None:
    grid = Grid(rho_ft=np.array([0.0, 4000.0, 8000.0]))
    psi, rho, theta = grid.states()
    later = mdp.transition(grid, Speeds(own_ft_s=300, intruder_ft_s=200), own_turn_rad=0.0).expected(rho)
    ahead_and_opposite = (np.abs(psi) == math.pi) & (theta == 0) & (rho == 4000)
    assert later[ahead_and_opposite] == pytest.approx(3500)


def test_a_left_turn_moves_the_intruder_to_the_right() -> None:
    grid = Grid()
    psi, rho, theta = grid.states()
    transition = mdp.transition(grid, Speeds(), own_turn_rad=0.1)
    formation = (psi == 0) & (theta == 0) & (rho == 1000)
    assert transition.expected(theta)[formation] == pytest.approx(-0.1)
    assert transition.expected(psi)[formation] == pytest.approx(-0.1)
    assert transition.expected(rho)[formation] == pytest.approx(1000)


def test_closest_approach_of_head_on_of_crossing_and_of_diverging_flight() -> None:
    grid = Grid(
        rho_ft=np.array([0.0, 2000.0]), theta_rad=np.array([0.0, math.pi / 2]), psi_rad=np.array([0.0, math.pi])
    )
    distance_ft, time_s = mdp.closest_approach(grid, Speeds())
    head_on, abeam_and_parallel, abeam_and_opposite = (1, 1, 0), (0, 1, 1), (1, 1, 1)
    assert (distance_ft[head_on], time_s[head_on]) == pytest.approx((0.0, 5.0))
    assert (distance_ft[abeam_and_parallel], time_s[abeam_and_parallel]) == (2000.0, 0.0)
    assert (distance_ft[abeam_and_opposite], time_s[abeam_and_opposite]) == pytest.approx((2000.0, 0.0))


def test_collision_costs_one_within_500_ft_and_decays_beyond() -> None:
    rewards = mdp.collision_reward(Grid(rho_ft=np.array([0.0, 500.0, 1000.0])))
    assert rewards[0, :, 0].tolist() == pytest.approx([-1.0, -1.0, -math.exp(-1)])


@pytest.mark.parametrize(
    ("previous", "advisory", "reward"),
    [
        ("COC", "WL", -1.5e-3),
        ("COC", "SR", -3.5e-3),
        ("WL", "WL", -5e-5),
        ("WL", "SL", -1.25e-3),
        ("WL", "WR", -5.005e-2),
        ("WL", "SR", -5.025e-2),
        ("SR", "WR", -2.5e-4),
        ("SR", "SL", -5.025e-2),
    ],
)
def test_alerts_cost_by_strength_and_change_of_mind(previous: str, advisory: str, reward: float) -> None:
    rewards = mdp.advisory_reward(Grid(), Speeds(), mdp.ADVISORIES.index(previous))
    assert np.unique(rewards[mdp.ADVISORIES.index(advisory)]) == pytest.approx([reward])


@pytest.mark.parametrize(("previous", "reward"), [("COC", -1e-2 * math.exp(-0.5)), ("WL", -1e-1 * math.exp(-0.5))])
def test_clear_of_conflict_costs_where_flight_leads_near(previous: str, reward: float) -> None:
    grid = Grid(rho_ft=np.array([0.0, 2000.0]), theta_rad=np.array([0.0, 1.0]), psi_rad=np.array([0.0, math.pi]))
    rewards = mdp.advisory_reward(grid, Speeds(), mdp.ADVISORIES.index(previous))
    assert rewards[0][1, 1, 0] == pytest.approx(reward)
