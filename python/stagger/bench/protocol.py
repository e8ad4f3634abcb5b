"""How opponents are timed, whatever the clock: fairly, or not at all.

A kernel's time depends on what ran before it by more than the differences that are looked for: a
chip that is warm lowers its clock, one that rested does not. So opponents run in rounds, each after
the others and in another order every time (a Latin square), and there are two regimes, which are
never compared with each other:

steady   an opponent runs back to back for a while, by its own heat, and the last part counts:
         what a training step sees
spaced   each call comes after a rest, in which its launch is prepared too: what the kernel can do

An opponent's time in a round is the median of its calls; its result is the median over rounds, with
quartiles; and a ratio is one of the same round, of which again the median counts. A round in which
two opponents ran at clock rates more than 3 % apart is done again, once.
"""

import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How long and how often."""

    rounds: int = 9
    steady_ms: float = 400.0  #: of calls back to back
    counted_ms: float = 200.0  #: of them, the last ones count
    spaced_calls: int = 10
    rest_ms: float = 1.0  #: before each spaced call
    between_ms: float = 20.0  #: between opponents, of nothing
    clock_spread: float = 0.03  #: more than that, and a round is done again


@dataclasses.dataclass
class Reading:
    """One opponent in one round and regime."""

    ms: float  #: median of its calls
    host_us: float  #: of one call, until it is enqueued
    clock_mhz: float = None  #: mean clock rate meanwhile; None: not known
    calls: int = 0


def order(names, turn):
    """Opponents in the order of a round: each begins once in as many rounds as there are."""
    turn %= len(names)
    return names[turn:] + names[:turn]


def steady(clock, function, protocol, guess_ms):
    """A reading of calls back to back; `guess_ms` is what one takes, more or less."""
    calls = max(2, math.ceil(protocol.steady_ms / guess_ms))
    counted = min(calls, max(1, math.ceil(protocol.counted_ms / guess_ms)))
    return _reading(clock, function, calls, counted, 0.0)


def spaced(clock, function, protocol, _=None):
    """A reading of calls that each come after a rest."""
    return _reading(clock, function, protocol.spaced_calls, protocol.spaced_calls,
                    protocol.rest_ms)


def _reading(clock, function, calls, counted, rest_ms):
    clock.settle()
    marks = []
    begin = clock.now()
    for _ in range(calls):
        if rest_ms:
            clock.rest(rest_ms)
        marks.append(clock.timed(function))
    clock.settle()
    taken = marks[-counted:]
    return Reading(statistics.median(clock.elapsed_ms(mark) for mark in taken),
                   statistics.median(clock.host_us(mark) for mark in taken),
                   clock.mean_mhz(begin, clock.now()), calls)


REGIMES = {"steady": steady, "spaced": spaced}


def apart(readings):
    """How far the clock rates of a round's readings are apart, as a share of the lowest; 0 where
    they are not known."""
    rates = [reading.clock_mhz for reading in readings.values() if reading.clock_mhz]
    return max(rates) / min(rates) - 1 if len(rates) > 1 else 0.0


def one_round(clock, opponents, protocol, regime, turn, guesses):
    """Readings of a round by opponent (a dict of functions by name)."""
    readings = {}
    for name in order(list(opponents), turn):
        clock.pause(protocol.between_ms)
        readings[name] = REGIMES[regime](clock, opponents[name], protocol, guesses[name])
    return readings


def guess(clock, function):
    """What a call takes, by the second and third."""
    function()
    return max(spaced(clock, function, Protocol(spaced_calls=2, rest_ms=0.0)).ms, 1e-3)


def measure(clock, opponents, protocol):
    """Every regime's rounds: {regime: [{opponent: Reading}]}, and how many rounds were repeated.
    `opponents` are functions by name, each of which enqueues one call."""
    guesses = {name: guess(clock, function) for name, function in opponents.items()}
    rounds, repeated = {regime: [] for regime in REGIMES}, 0
    for turn in range(protocol.rounds):
        for regime, done in rounds.items():
            readings = one_round(clock, opponents, protocol, regime, turn, guesses)
            if apart(readings) > protocol.clock_spread:
                repeated += 1
                again = one_round(clock, opponents, protocol, regime, turn, guesses)
                readings = min(readings, again, key=apart)
            done.append(readings)
    return rounds, repeated


def quartiles(values):
    """Lower quartile, median, upper quartile, by linear interpolation."""
    if len(values) == 1:
        return [values[0]] * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def summary(rounds, name):
    """What rounds say of an opponent: ms with quartiles, host time and clock rate."""
    readings = [readings[name] for readings in rounds]
    low, middle, high = quartiles([reading.ms for reading in readings])
    rates = [reading.clock_mhz for reading in readings if reading.clock_mhz]
    return {"ms": middle, "quartiles_ms": [low, high],
            "rounds_ms": [reading.ms for reading in readings],
            "host_us": statistics.median(reading.host_us for reading in readings),
            "clock_mhz": statistics.fmean(rates) if rates else None,
            "calls": readings[0].calls}


def ratio(rounds, name, other):
    """How many times as fast as another one an opponent is: the median of each round's ratio, with
    its quartiles."""
    low, middle, high = quartiles([readings[other].ms / readings[name].ms for readings in rounds])
    return {"times": middle, "quartiles": [low, high]}
