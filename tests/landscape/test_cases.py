"""Every textbook case: the right transitions and nothing else, to the stated precision."""

import cases
import pytest

from phasetheory.landscape import find_phases

QUICK = ["phi6-weak-first", "isola-metastable", "double-soft-diagonal", "massive-field-makes-first"]


def check(report, case, x_unit=1.0, u_unit=1.0):
    assert report.status == "complete", report.problems
    found = [(t.order, t.control / u_unit) for t in report.transitions]
    assert [order for order, _ in found] == [e["order"] for e in case["expected"]], found
    width = case["control_range"][1] - case["control_range"][0]
    for transition, expected in zip(report.transitions, case["expected"], strict=True):
        size = max(abs(expected["control"]), 1e-3 * width)
        error = abs(transition.control / u_unit - expected["control"])
        assert error <= 1e-8 * size
        # the claimed error is a bound, up to the digits of the expected value
        assert error <= transition.control_error / u_unit + 1e-14 * size
        if "jump" in expected:
            assert transition.jump / x_unit == pytest.approx(expected["jump"], rel=1e-5)
        if "barrier" in expected:
            assert transition.barrier == pytest.approx(expected["barrier"], rel=1e-6)
        if "spinodals" in expected:
            for mine, exact in zip(transition.spinodals, expected["spinodals"], strict=True):
                if exact in (None, "none"):
                    assert mine is None
                else:
                    assert mine is not None
                    assert abs(mine / u_unit - exact) <= 1e-5 * max(abs(exact), 1e-3 * width)
        for side, values in (("from", transition.low), ("to", transition.high)):
            if side in expected:
                # any copy under a sign change will do
                assert abs(values) / x_unit == pytest.approx(
                    [abs(v) for v in expected[side]], rel=1e-6, abs=1e-7
                )


@pytest.mark.parametrize("case", cases.given(), ids=lambda case: case["name"])
def test_given(case):
    check(find_phases(cases.landscape(case)), case)


@pytest.mark.parametrize("name", QUICK)
def test_textbook_quick(name):
    check(find_phases(cases.landscape(cases.by_name(name))), cases.by_name(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c for c in cases.textbook() if c["name"] not in QUICK], ids=lambda case: case["name"]
)
def test_textbook(case):
    check(find_phases(cases.landscape(case)), case)


CHANGES = [
    {"x_unit": 1e-6},
    {"x_unit": 1e6},
    {"u_unit": 1e-6},
    {"u_unit": 1e6},
    {"widen": 3.0},
    {"widen": 100.0},
]


@pytest.mark.parametrize("change", CHANGES[::2], ids=str)
def test_units_and_bounds_do_not_matter(change):
    check_change("landau-phi6-first", change)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize(
    "name",
    [c["name"] for c in cases.given()] + ["tricritical-phi6", "phi6-weaker-first", "cosine-chain"],
)
def test_units_and_bounds_do_not_matter_anywhere(name, change):
    if name == "cosine-chain" and "widen" in change:
        pytest.skip("a wider box holds more minima of a periodic action")
    check_change(name, change)


def check_change(name, change):
    case = cases.by_name(name)
    units = {key: value for key, value in change.items() if key != "widen"}
    check(find_phases(cases.landscape(case, **change)), case, **units)


def test_multiplicities():
    """Copies under sign changes are one phase; a ring of minima is one phase."""
    two = find_phases(cases.landscape(cases.by_name("landau-phi4")))
    assert [p.multiplicity for p in two.phases] == [2, 1]
    ring = find_phases(cases.landscape(cases.by_name("o2-rotor")))
    assert [p.multiplicity for p in ring.phases] == ["continuous", 1]
    four = find_phases(cases.landscape(cases.by_name("double-soft-diagonal")))
    assert sorted(p.multiplicity for p in four.phases) == [1, 4]


def test_crossover_is_no_transition():
    """tilted phi^4: no transition, a crossover, and the metastable branch ends where it must."""
    report = find_phases(cases.landscape(cases.by_name("tilted-phi4")))
    assert not report.transitions
    assert [c.order_parameter for c in report.crossovers][:1] == ["x"]
    assert report.phases[1].ends[1].control == pytest.approx(0.592837357510764, rel=1e-9)
    assert report.phases[1].ends[1].kind == "spinodal"


def test_same_result_twice():
    first, second = (find_phases(cases.landscape(cases.by_name("potts-3"))) for _ in range(2))
    assert first.transitions[0].control == second.transitions[0].control
    assert (first.phases[0].action == second.phases[0].action).all()
