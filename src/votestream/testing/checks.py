"""How every learner learns, answers and remembers; one function a promise."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from votestream.testing.promise import (
    Make,
    demand,
    demand_refusal,
    demand_same,
    file_of,
    learned,
    promise,
    reloaded,
    samples_for,
    takes_images,
)

TASKS: list[Any] = ["week-1", "week-2", 3]
NO_TASKS: list[Any] = [1.5, True, ["a"], b"a"]

# ---- learning -------------------------------------------------------------------------------------


@promise("the constructor only stores its arguments")
def check_that_the_constructor_only_stores(make: Make) -> None:
    model = make()
    more = set(vars(model)) ^ set(model.get_params(deep=False))
    demand(not more, f"it has, or lacks, {', '.join(sorted(more))}")
    demand(repr(clone(model).get_params()) == repr(model.get_params()), "a clone has other settings")


@promise("well separated classes are learned")
def check_that_separated_classes_are_learned(make: Make) -> None:
    samples = samples_for(make)
    accuracy = (learned(make(), samples).predict(samples.X) == samples.y).mean()
    demand(accuracy > 0.8, f"only {accuracy:.0%} of the samples that were learned are told apart")


@promise("partial_fit returns the model itself")
def check_that_partial_fit_returns_the_model(make: Make) -> None:
    samples, model = samples_for(make), make()
    demand(model.partial_fit(samples.X[:5], samples.y[:5]) is model, "it returns something else")


@promise("any batch size of the caller is taken")
def check_that_any_batch_size_is_taken(make: Make) -> None:
    samples, single = samples_for(make), make()
    demand(len(make().partial_fit(samples.X, samples.y).classes_) == 6, "all at once are not six classes")
    for x, label in zip(samples.X[:40], samples.y[:40], strict=True):
        single.partial_fit(x[None], [label])
    demand(len(single.classes_) == 2, "one by one, the first task is not two classes")


@promise("a whole task in one call is the same as its mini-batches")
def check_that_a_whole_task_equals_its_mini_batches(make: Make) -> None:
    samples, by_batch, by_task = samples_for(make), make(), make()
    for name, (X, y) in enumerate(samples.tasks):
        for i in range(0, len(X), 10):
            by_batch.partial_fit(X[i : i + 10], y[i : i + 10], task=name)
        by_task.partial_fit(X, y, task=name)
    demand_same(by_batch, by_task, samples.X, "the two")


@promise("the same seed gives the same model")
def check_that_the_same_seed_gives_the_same_model(make: Make) -> None:
    samples = samples_for(make)
    demand_same(learned(make(seed=3), samples), learned(make(seed=3), samples), samples.X, "the two")


@promise("saving, loading and going on equals never having stopped")
def check_that_saving_and_loading_changes_nothing(make: Make) -> None:
    samples = samples_for(make)
    batches = list(samples.batches())
    steady, files = make(), {}
    going_on = []  # (the model that was loaded, from which mini-batch on)
    for i, (X, y) in enumerate(batches, start=1):
        steady.partial_fit(X, y)
        if i in (1, 7, 13):
            files[i] = file_of(steady)
            going_on.append((i, reloaded(steady)))
    for stop, model in going_on:
        demand(file_of(model) == files[stop], f"loaded after {stop} mini-batches and saved again, the file differs")
        for X, y in batches[stop:]:
            model.partial_fit(X, y)
        demand_same(steady, model, samples.X, f"the model that stopped after {stop} mini-batches and the other")


@promise("predicting has no side effect")
def check_that_predicting_has_no_side_effect(make: Make) -> None:
    samples, asked, left_alone = samples_for(make), make(), make()
    for X, y in samples.batches():
        left_alone.partial_fit(X, y)
        asked.partial_fit(X, y)
        asked.predict(X)
        asked.predict_proba(X)
    demand_same(asked, left_alone, samples.X, "the model that was asked and the other")


@promise("the caller's arrays are left as they were, and not kept")
def check_that_the_callers_arrays_are_left_alone(make: Make) -> None:
    samples = samples_for(make)
    X, y = samples.X.copy(), samples.y.copy()
    model = make().partial_fit(X, y)
    before = model.predict_proba(samples.X)
    demand(np.array_equal(X, samples.X) and np.array_equal(y, samples.y), "learning changed them")
    X[:] = 0
    demand(np.array_equal(model.predict_proba(samples.X), before), "changed later, they change the answers")


# ---- labels, tasks, probabilities -----------------------------------------------------------------


@promise("labels renamed give the same model renamed")
def check_that_labels_may_be_renamed(make: Make) -> None:
    names = np.array(["zebra", "ant", "Ωmega", "10", "9", ""])
    samples, numbered, named = samples_for(make), make(), make()
    for X, y in samples.batches():
        numbered.partial_fit(X, y)
        named.partial_fit(X, names[y])
    X = samples.X
    demand(list(names[numbered.classes_seen_]) == list(named.classes_seen_), "classes_seen_ differ")
    demand(np.array_equal(names[numbered.predict(X)], named.predict(X)), "answers differ")
    columns = np.searchsorted(named.classes_, names[numbered.classes_])
    same = np.array_equal(numbered.predict_proba(X), named.predict_proba(X)[:, columns])
    demand(same, "probabilities differ")


@promise("integers and strings may mix as labels, and survive saving")
def check_that_labels_may_mix(make: Make) -> None:
    samples = samples_for(make)
    labels: list[Any] = [int(y) if y % 2 else f"class {y}" for y in samples.y]
    model = make().partial_fit(samples.X, labels)
    answers = list(model.predict(samples.X))
    demand(set(answers) <= set(labels), f"it answers {set(answers) - set(labels)}")
    demand(list(reloaded(model).predict(samples.X)) == answers, "a loaded model answers with others")


@promise("classes_ are sorted, classes_seen_ as they came")
def check_that_classes_are_sorted(make: Make) -> None:
    X = samples_for(make).X
    mixed: Any = ["m", 7, "a"]
    model = make().partial_fit(X[:1], ["z"]).partial_fit(X[:3], mixed)
    demand(list(model.classes_) == [7, "a", "m", "z"], f"classes_ are {list(model.classes_)}")
    demand(list(model.classes_seen_) == ["z", "m", 7, "a"], f"classes_seen_ are {list(model.classes_seen_)}")


@promise("every public array stands as classes_ do")
def check_that_arrays_stand_as_classes_do(make: Make) -> None:
    names = np.array(["f", "e", "d", "c", "b", "a"])
    samples, forward, backward = samples_for(make), make(), make()
    for task, (X, y) in enumerate(samples.tasks):
        forward.partial_fit(X, y, task=task)
        backward.partial_fit(X, names[y], task=task)
    for name in ("task_of_class_", "class_counts_", "class_means_", "weights_", "ranks_"):
        if hasattr(forward, name):
            demand(np.array_equal(getattr(forward, name), getattr(backward, name)[::-1]), f"{name} does not")
    shares, turned = forward.predict_proba(samples.X), backward.predict_proba(samples.X)
    demand(np.array_equal(shares, turned[:, ::-1]), "the columns of predict_proba do not")


@promise("probabilities sum to one and agree with predict")
def check_that_probabilities_are_probabilities(make: Make) -> None:
    samples = samples_for(make)
    model = learned(make(), samples)
    shares, sums = (P := model.predict_proba(samples.X)), P.sum(1)
    demand(shares.shape == (len(samples.X), 6), f"of {len(samples.X)} rows and 6 classes they are {shares.shape}")
    demand((shares >= 0).all(), "one is below zero")
    demand(np.allclose(sums, 1), f"a row sums to {float(sums[np.abs(sums - 1).argmax()]):.6g}")
    demand(np.array_equal(model.classes_[shares.argmax(1)], model.predict(samples.X)), "predict has another class")
    unsure = samples.between()
    same = model.classes_[model.predict_proba(unsure).argmax(1)] == model.predict(unsure)
    demand(same.all(), f"predict has another class for {(~same).mean():.0%} of the samples between two classes")


@promise("a parameter that is changed counts from the next prediction on")
def check_that_changed_parameters_count(make: Make) -> None:
    """Either it may not change any more, or the model predicts as one that is loaded with the new value."""
    samples = samples_for(make)
    model = learned(make(), samples)
    for name, value in model.get_params(deep=False).items():
        for other in _others(value, few=takes_images(make)):
            model.predict_proba(samples.X[:1])  # whatever this prepared is out of date with the next line
            try:
                shares = model.set_params(**{name: other}).predict_proba(samples.between())
                fresh = reloaded(model).predict_proba(samples.between())
            except ValueError:  # not any more, or not this value
                continue
            finally:
                model.set_params(**{name: value})
            demand(np.array_equal(shares, fresh), f"{name}={other!r} counts only once the model is saved and loaded")


def _others(value: Any, few: bool) -> list[Any]:
    """Other values that a parameter might take; few where each costs the training of a network."""
    if few:
        return [2 * value] if isinstance(value, float) else []
    if isinstance(value, bool):
        return [not value]
    return [2 * value, value / 2] if isinstance(value, float) else [value + 1] if isinstance(value, int) else [0.5]


@promise("tasks that are told are the tasks kept")
def check_that_tasks_told_are_kept(make: Make) -> None:
    samples, model = samples_for(make), make()
    for name, (X, y) in zip(TASKS, samples.tasks, strict=True):
        model.partial_fit(X, y, task=name)
    demand(model.tasks_ == TASKS, f"tasks_ are {model.tasks_}")
    demand(model.task_of_class_.tolist() == [0, 0, 1, 1, 2, 2], f"task_of_class_ is {model.task_of_class_}")
    for told in NO_TASKS:
        demand_refusal(
            repr(told), "task must be a string or an integer", make().partial_fit, *samples.tasks[0], task=told
        )


@promise("one class alone works")
def check_that_one_class_works(make: Make) -> None:
    X = samples_for(make).X
    model = make().partial_fit(X[:10], ["only"] * 10)
    demand(set(model.predict(X[:3])) == {"only"}, "another class is the answer")
    shares = model.predict_proba(X[:3])
    demand(shares.shape == (3, 1) and np.allclose(shares, 1), f"its probability is not 1: {shares.tolist()}")


# ---- memory ---------------------------------------------------------------------------------------


@promise("memory_bytes() grows with the stream only where `bounded` is False")
def check_that_memory_is_bounded(make: Make) -> None:
    samples, model, held = samples_for(make), make(), []
    times, rounds = (
        (2, 14) if takes_images(make) else (5, 20)
    )  # networks take their time; no buffer of rows has to fill
    for _ in range(rounds):
        model.partial_fit(np.repeat(samples.X, times, axis=0), np.repeat(samples.y, times))
        model.predict(samples.X[:1])
        held.append(model.memory_bytes())
    demand(held[0] > 0, f"it is {held[0]} after the first samples")
    middle, last = held[rounds // 2 - 1], held[-1]
    demand((last > middle * 1.05) != model.bounded, f"bounded is {model.bounded}, and it went from {middle} to {last}")


@promise("a budget of exemplars holds at every moment")
def check_that_a_budget_holds(make: Make) -> None:
    if "budget" not in make().get_params():
        return
    samples = samples_for(make)
    for budget in (7, 40):
        model = make(budget=budget)
        for X, y in samples.batches(3):
            kept = len(model.partial_fit(X, y).exemplars_.features)
            demand(kept <= budget, f"{kept} are kept with a budget of {budget}")
