"""Figures in words: what is called doubtful, and that nothing else is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kexpfam.model.health import (
    Comparison,
    FlowQuality,
    Health,
    NormalizerEstimate,
    flow_quality,
    nothing_compared,
)

SOUND = Comparison(400, 0.2, 0.02, -3.0, 0.05, -2.9, 0.55, 0.51)
QUADRATURE = NormalizerEstimate(0.3, 1e-6, math.nan, math.nan)
FLOW = FlowQuality(5, 1e-3, 1e-4, 5e-4, 2e-3)


def test_sound_figures_are_not_complained_about():
    health = Health(True, SOUND, QUADRATURE, FLOW)
    assert health.good
    assert health.complaints == []
    assert "gains +0.2 ± 0.02 nats" in health.in_words
    assert "sound" in repr(health)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comparison": SOUND._replace(below_draws=0.7)}, "do not look like draws"),
        ({"comparison": SOUND._replace(below_training=0.9)}, "overfits"),
        ({"normalizer": NormalizerEstimate(0.3, 0.01, 50.0, 0.2)}, "only 50 of the draws"),
        ({"normalizer": NormalizerEstimate(0.3, 0.01, 5e3, 0.9)}, "tail of shape 0.90"),
        ({"normalizer": NormalizerEstimate(0.3, 0.5, 5e3, 0.2)}, "its error is 0.5 nats"),
        ({"normalizer": NormalizerEstimate(0.3, math.nan, math.nan, math.nan)}, "panels"),
        ({"flow": FLOW._replace(nearly_largest_error=0.2, largest_error=0.3)}, "0.3 nats"),
    ],
)
def test_each_doubt_has_its_sentence(change, words):
    health = Health(True, SOUND, QUADRATURE, FLOW)._replace(**change)
    assert not health.good
    (complaint,) = health.complaints
    assert words in complaint
    assert any(one.good is False for one in health.headlines())


def test_shares_of_few_rows_are_not_held_against_a_model():
    few = SOUND._replace(n_rows=10, below_draws=0.7)
    assert Health(True, few).good


def test_without_a_tilt_what_it_would_have_needed_does_not_matter():
    poor = NormalizerEstimate(0.3, 9.0, 1.0, 2.0)
    assert Health(False, SOUND, poor, FLOW._replace(nearly_largest_error=9.0)).good


@pytest.mark.parametrize(
    ("has_tilt", "comparison", "words"),
    [
        (False, nothing_compared(), "too few rows to hold some out"),
        (True, nothing_compared(), "was not compared"),
        (False, SOUND._replace(gain=math.nan), "No tilt was found that pays"),
        (False, SOUND._replace(gain=0.01), "which is not enough"),
    ],
)
def test_why_there_is_a_tilt_or_none(has_tilt, comparison, words):
    assert words in Health(has_tilt, comparison).about_the_tilt


def test_a_gain_wins_beyond_its_error_alone():
    assert SOUND.wins
    assert not SOUND._replace(gain=0.02).wins
    assert not SOUND._replace(gain=math.nan).wins


def test_errors_of_no_rows_are_none():
    assert flow_quality(5, 1e-3, np.empty(0))[2:] == (0.0, 0.0, 0.0)
