"""What learners with an argument `track` promise; others pass."""

from __future__ import annotations

import numpy as np

from votestream.testing.promise import Make, demand, demand_same, learned, promise, reloaded, samples_for


def tracks(make: Make) -> bool:
    return "track" in make().get_params(deep=False)


@promise("track=True changes nothing that is learned, and no decision", on_features=True)
def check_that_tracking_changes_nothing_learned(make: Make) -> None:
    if not tracks(make):
        return
    samples = samples_for(make)
    tracked, plain = learned(make(track=True), samples), learned(make(), samples)
    demand(np.array_equal(tracked.predict(samples.X), plain.predict(samples.X)), "predict differs")
    shares = tracked.predict_proba(samples.X)
    demand(np.array_equal(tracked.classes_[shares.argmax(1)], plain.predict(samples.X)), "probabilities disagree")
    demand(np.allclose(shares.sum(1), 1), "calibrated probabilities do not sum to one")
    mine, theirs = tracked.memory_.arrays(), plain.memory_.arrays()
    demand(all(np.array_equal(mine[name], theirs[name]) for name in theirs), "what is kept differs")


@promise("a track record goes on after saving and loading as if it had never stopped", on_features=True)
def check_that_a_track_record_resumes(make: Make) -> None:
    if not tracks(make):
        return
    samples, steady, resumed = samples_for(make), make(track=True), make(track=True)
    for i, (X, y) in enumerate(samples.batches()):
        steady.partial_fit(X, y)
        resumed = (reloaded(resumed) if i in (1, 7, 13) else resumed).partial_fit(X, y)
    demand_same(steady, resumed, samples.X, "the model that stopped and the other")
    demand(steady.track_record() == resumed.track_record(), "the records differ")
    demand(np.array_equal(steady.unknown_score(samples.X), resumed.unknown_score(samples.X)), "unknown_score differs")


@promise("unknown_score is between 0 and 1, has no side effect, and a snapshot has the same", on_features=True)
def check_that_unknown_scores_are_scores(make: Make) -> None:
    if not tracks(make):
        return
    samples = samples_for(make)
    model = learned(make(track=True), samples)
    scores = model.unknown_score(samples.X)
    demand(scores.shape == (len(samples.X),), f"of {len(samples.X)} rows they are {scores.shape}")
    demand(((scores >= 0) & (scores <= 1)).all(), f"one is {scores.min()} or {scores.max()}")
    snapshot = model.snapshot()
    demand(np.array_equal(snapshot.unknown_score(samples.X), scores), "a snapshot's scores differ")
    same = np.array_equal(snapshot.predict_proba(samples.X), model.predict_proba(samples.X))
    demand(same, "a snapshot's probabilities differ")


@promise("confidence is a probability no larger than predict_proba's, and the same when loaded", on_features=True)
def check_that_confidence_is_a_probability(make: Make) -> None:
    if not tracks(make):
        return
    samples = samples_for(make)
    model = learned(make(track=True), samples)
    sure, largest = model.confidence(samples.X), model.predict_proba(samples.X).max(1)
    demand(sure.shape == (len(samples.X),), f"of {len(samples.X)} rows they are {sure.shape}")
    demand(((sure >= 0) & (sure <= largest)).all(), "one is below 0, or above the largest probability")
    demand(np.array_equal(model.snapshot().confidence(samples.X), sure), "a snapshot's differ")
    demand(np.array_equal(reloaded(model).confidence(samples.X), sure), "they differ after saving and loading")
    wary = model.confidence(samples.X, unknown_share=0.5)
    demand((wary <= sure).all(), "they rise with the share of unknown rows")
