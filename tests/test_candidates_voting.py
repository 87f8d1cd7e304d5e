"""What makes the learner the paper's: frozen blocks, pairs, noise, variants, tasks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import votestream as vs
from conftest import Stream, same_model
from votestream.compute.place import Place, small_product
from votestream.learners.exemplars.head import GrowingHead


def learner(**params):
    return vs.CandidatesVoting(device="cpu", **params)


def test_a_step_is_sgd_on_the_mean_softmax_cross_entropy():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 7)).astype(np.float32), rng.integers(0, 5, 20)
    head = GrowingHead(7, bias=True, init="uniform", centre=False, place=Place("cpu"))
    head.grow(5, torch.Generator().manual_seed(0))
    layer = torch.nn.Linear(7, 5)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(head.rows[:, :7]))
        layer.bias.copy_(torch.from_numpy(head.rows[:, 7]))
    before = head.rows.copy()
    torch.nn.functional.cross_entropy(layer(torch.from_numpy(X)), torch.from_numpy(y)).backward()
    head.step(X, y, start=2, lr=0.3)
    expected = before - 0.3 * np.column_stack([layer.weight.grad, layer.bias.grad])
    assert np.allclose(head.rows[2:], expected[2:], atol=1e-6)
    assert np.array_equal(head.rows[:2], before[:2])


def test_rows_of_closed_tasks_never_change_again(stream):
    model, frozen = learner(), {}
    for name, (X, y) in enumerate(stream.tasks):
        model.partial_fit(X, y, task=name)
        for task, rows in frozen.items():
            assert np.array_equal(model.weights_[model.task_of_class_ == task], rows)
        frozen[name] = model.weights_[model.task_of_class_ == name]
    model.partial_fit(stream.X, stream.y, task="all of it again")
    for task, rows in frozen.items():
        assert np.array_equal(model.weights_[model.task_of_class_ == task], rows)


@pytest.mark.parametrize("keep", ["mean_distance", "reservoir"])
def test_a_task_learned_in_one_pass_is_partial_fit(stream, keep):
    one, other = learner(budget=20, keep=keep), learner(budget=20, keep=keep)
    for name, (X, y) in enumerate(stream.tasks):
        one.fit_task(X, y, task=name)
        other.partial_fit(X, y, task=name)
    assert same_model(one, other)


def test_in_further_passes_only_the_head_of_the_task_learns(stream):
    once, often = learner(budget=20), learner(budget=20)
    for name, (X, y) in enumerate(stream.tasks):
        before = often.weights_ if name else np.empty((0, 12))
        once.fit_task(X, y, task=name)
        often.fit_task(X, y, task=name, passes=4)
        assert np.array_equal(often.weights_[: len(before)], before)
    assert (once.weights_ != often.weights_).any(axis=1).all()
    assert same_model_but_for(once, often, "head", "random")
    assert often.class_counts_.tolist() == [30] * 6


def test_more_passes_fit_a_task_better(stream):
    def loss(passes):
        model = learner(decide="argmax", lr=0.02).fit_task(*stream.tasks[0], passes=passes)
        X, y = stream.tasks[0]
        numbers = np.searchsorted(np.sort(model.classes_), y)
        return -np.log(model.predict_proba(X)[:, np.argsort(model.classes_)][np.arange(len(y)), numbers]).mean()

    assert loss(1) > 1.2 * loss(5)


def test_a_model_saved_between_tasks_of_several_passes_goes_on_as_if_it_had_not_been(stream, tmp_path):
    whole = learner(budget=20, seed=3)
    parted = learner(budget=20, seed=3)
    for X, y in stream.tasks:
        whole.fit_task(X, y, passes=3)
        parted.fit_task(X, y, passes=3).save(tmp_path / "m.safetensors")
        parted = vs.load(tmp_path / "m.safetensors")
    assert same_model(whole, parted)
    assert whole.tasks_ == ["task 1", "task 2", "task 3"]


def test_wrong_passes_leave_the_model_as_it_was(stream):
    model, other = learner(), learner().partial_fit(*stream.tasks[0])
    model.partial_fit(*stream.tasks[0])
    for passes in (0, 2.5):
        with pytest.raises(ValueError, match="passes"):
            model.fit_task(*stream.tasks[1], passes=passes)
    with pytest.raises(ValueError, match="differ in length"):
        model.fit_task(stream.X, stream.y[1:], passes=2)
    assert same_model(model, other)


def test_further_passes_cut_short_do_not_pass_for_learned(stream, monkeypatch):
    model, steps, real = learner(), [], vs.CandidatesVoting._step

    def interrupted(self, X, classes):
        steps.append(len(X))
        if len(steps) > 8:
            raise KeyboardInterrupt
        real(self, X, classes)

    monkeypatch.setattr(vs.CandidatesVoting, "_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit_task(*stream.tasks[0], passes=2)
    with pytest.raises(RuntimeError, match="interrupted"):
        model.predict(stream.X)


def same_model_but_for(one, other, *parts):
    mine, theirs = one.memory_.arrays(), other.memory_.arrays()
    return all(np.array_equal(mine[key], theirs[key]) for key in mine if key.split(".")[0] not in parts)


def test_without_freezing_every_row_goes_on_learning(stream):
    model = learner(freeze=False)
    model.partial_fit(*stream.tasks[0], task=0)
    before = model.weights_
    model.partial_fit(*stream.tasks[1], task=1)
    assert (model.weights_[:2] != before).any(axis=1).all()


def test_new_rows_are_drawn_as_a_linear_layers():
    model = learner(centre=False).partial_fit(np.zeros((1, 400)), [0])  # a zero sample moves nothing
    assert np.abs(model.weights_).max() <= 1 / 20
    assert abs(model.weights_.std() - 1 / 20 / np.sqrt(3)) < 0.003
    assert not learner(init="zeros").partial_fit(np.zeros((1, 4)), [0]).weights_.any()


class Recorded(vs.CandidatesVoting):
    """Keeps what each training step saw."""

    def begin(self, *args, **options):
        state = super().begin(*args, **options)
        head = state.memory.head
        self.steps, step = [], head.step

        def recorded(X, classes, *rest):
            self.steps.append((X, classes))
            step(X, classes, *rest)

        vars(head)["step"] = recorded
        return state


def test_each_new_sample_is_paired_with_exemplars_of_earlier_tasks(stream):
    for pairs in (0, 1, 3):
        model = Recorded(device="cpu", pairs=pairs, augment=False, scale=None)
        model.partial_fit(*stream.tasks[0], task=0)
        assert all(len(X) == 10 for X, _ in model.steps)
        stored = set(map(bytes, model.exemplars_.features))
        model.steps.clear()
        model.partial_fit(*stream.tasks[1], task=1)
        for X, classes in model.steps:
            assert len(X) == 10 * (1 + pairs)
            assert set(classes[10:]) <= {0, 1}
            assert set(map(bytes, X[10:])) <= stored


def test_augmentation_adds_noise_of_the_classs_own_spread():
    rng = np.random.default_rng(0)
    spread = np.array([0.1, 3.0])
    model = Recorded(device="cpu", scale=None, budget=50)
    model.partial_fit(rng.normal(size=(3000, 2)) * spread, [0] * 3000, task=0)
    model.partial_fit(rng.normal(size=(3000, 2)) + 9, [1] * 3000, task=1)
    drawn = np.concatenate([X[classes == 0] for X, classes in model.steps[300:]])
    exemplars = model.exemplars_.features[model.exemplars_.labels == 0]
    expected = np.sqrt(spread**2 + exemplars.var(0))
    assert np.allclose(drawn.std(0), expected, rtol=0.1)


def test_the_paper_preset_is_beta_half_and_features_as_they_come(stream):
    paper = learner(preset="paper").partial_fit(stream.X, stream.y)
    spelled = learner(beta=0.5, scale=None, centre=False).partial_fit(stream.X, stream.y)
    assert paper.beta_ == 0.5
    assert np.array_equal(paper.weights_, spelled.weights_)


@pytest.mark.filterwarnings("ignore:features vary by")
def test_a_centred_head_learns_the_same_whatever_is_added_to_all_features(stream):
    plain = learner().partial_fit(stream.X, stream.y)
    shifted = learner().partial_fit(stream.X + 100, stream.y)
    assert np.allclose(plain.weights_, shifted.weights_, atol=1e-3)
    assert np.abs(shifted.weights_.sum(1)).max() < 1e-4
    off_centre = learner(centre=False).partial_fit(stream.X + 100, stream.y)
    scores = [(model.predict(stream.X + 100) == stream.y).mean() for model in (shifted, off_centre)]
    assert scores[0] > scores[1] + 0.2


def test_auto_scale_makes_learning_independent_of_the_unit_of_the_features(stream):
    plain = learner().partial_fit(stream.X, stream.y)
    scaled = learner().partial_fit(stream.X * 1024, stream.y)
    assert np.allclose(plain.weights_, scaled.weights_, atol=1e-4)
    assert np.allclose(scaled.exemplars_.features, plain.exemplars_.features * 1024)
    assert np.array_equal(plain.predict(stream.X), scaled.predict(stream.X * 1024))


def test_the_variants_decide_as_they_say(stream):
    model = learner().partial_fit(stream.X, stream.y)
    logits = stream.X @ model.weights_.T
    distances = ((stream.X[:, None] - model.exemplars_.features) ** 2).sum(2)
    baseline = model.set_params(decide="argmax").predict(stream.X)
    nearest = model.set_params(decide="nearest").predict(stream.X)
    assert np.array_equal(baseline, model.classes_[logits.argmax(1)])
    assert np.array_equal(nearest, model.exemplars_.labels[distances.argmin(1)])
    for decide in ("argmax", "nearest"):
        P = model.set_params(decide=decide).predict_proba(stream.X)
        assert np.allclose(P.sum(1), 1)
        assert np.array_equal(model.classes_[P.argmax(1)], model.predict(stream.X))


def test_a_way_to_decide_that_is_none_is_named_when_asked(stream):
    model = learner().partial_fit(stream.X, stream.y).set_params(decide="guess")
    with pytest.raises(ValueError, match="decide must be one of"):
        model.predict(stream.X)


@pytest.mark.parametrize("keep", ["mean_distance", "reservoir", "balanced", "first_in"])
@pytest.mark.parametrize("quota", ["seen", "fixed"])
def test_every_keep_rule_learns_within_the_budget_and_resumes(stream, tmp_path, keep, quota):
    model = learner(keep=keep, quota=quota, expected_classes=8, budget=30)
    steady = learner(keep=keep, quota=quota, expected_classes=8, budget=30)
    for i, (X, y) in enumerate(stream.batches()):
        model.partial_fit(X, y)
        steady.partial_fit(X, y)
        assert len(model.exemplars_.features) <= 30
        if i == 9:
            model.save(tmp_path / "m.safetensors")
            model = vs.load(tmp_path / "m.safetensors")
    assert np.array_equal(model.exemplars_.features, steady.exemplars_.features)
    assert (model.predict(stream.X) == stream.y).mean() > 0.6


def test_a_fixed_quota_never_gives_a_class_more_than_its_share(stream):
    model = learner(quota="fixed", expected_classes=10, budget=40)
    for X, y in stream.batches():
        model.partial_fit(X, y)
        assert np.unique(model.exemplars_.labels, return_counts=True)[1].max() <= 4


def test_more_classes_than_budget_warns_once_and_goes_on(stream):
    model = learner(budget=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for X, y in stream.batches():
            model.partial_fit(X, y)
            assert len(model.exemplars_.features) <= 4
    assert [str(w.message) for w in caught] == [
        "there are more classes than the budget of 4 exemplars: later classes go without"
    ]
    assert len(model.predict(stream.X)) == len(stream.X)


def test_a_warning_turned_into_an_error_leaves_the_model_as_it_was(stream):
    model = learner(budget=4).partial_fit(stream.X[:100], stream.y[:100])
    before = model.predict_proba(stream.X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="more classes than the budget"):
            model.partial_fit(stream.X, stream.y)
    assert len(model.classes_) == 4
    assert np.array_equal(model.predict_proba(stream.X), before)


def test_a_batch_larger_than_the_budget_is_learned(stream):
    model = learner(budget=5, batch_size=1000).partial_fit(stream.X[:60], stream.y[:60])
    assert len(model.exemplars_.features) == 4  # floor(5 / 2) for each of two classes


def test_classes_that_come_back_refresh_their_statistics_but_not_their_row(stream):
    model = learner(budget=20)
    for name, (X, y) in enumerate(stream.tasks):
        model.partial_fit(X, y, task=name)
    row, mean, count = model.weights_[0], model.class_means_[0], model.class_counts_[0]
    X, y = stream.tasks[0]
    model.partial_fit(X[y == model.classes_[0]] + 1, y[y == model.classes_[0]])
    assert np.array_equal(model.weights_[0], row)
    assert (model.class_means_[0] > mean).mean() > 0.9
    assert model.class_counts_[0] == 2 * count
    assert model.task_of_class_.max() == 2


def test_numbers_learned_are_handed_out_as_copies(stream):
    model = learner().partial_fit(stream.X, stream.y)
    before = model.predict(stream.X)
    model.weights_[:] = 0
    model.exemplars_.features[:] = 0
    model.class_means_[:] = 0
    assert np.array_equal(model.predict(stream.X), before)


def test_a_query_equal_to_an_exemplar_trusts_its_task(stream):
    model = learner().partial_fit(stream.X, stream.y)
    features, _, tasks = model.exemplars_
    prior = model.vote(features).prior
    assert (prior.argmax(1) == tasks).all()
    assert prior.max(1).min() > 0.99


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"budget": 0}, "budget must be an integer from 1 to .*, got 0"),
        ({"budget": 2.5}, "budget must be an integer"),
        ({"lr": -1}, "lr must be a number from 1e-09 to 100, got -1"),
        ({"lr": float("nan")}, "lr must be a number"),
        ({"beta": "auto"}, "beta"),
        ({"beta": 0}, "beta"),
        ({"pairs": -1}, "pairs must be an integer from 0 to 1000"),
        ({"decide": "guess"}, "decide must be one of 'vote', 'argmax', 'nearest', got 'guess'"),
        ({"keep": "all"}, "keep must be one of 'mean_distance'"),
        ({"quota": "fixed"}, "expected_classes"),
        ({"scale": -2}, "scale"),
        ({"batch_size": True}, "batch_size"),
        ({"preset": "papers"}, "preset"),
    ],
)
def test_a_bad_argument_is_named_when_learning_starts(stream, params, complaint):
    model = learner(**params)
    with pytest.raises(ValueError, match=complaint):
        model.partial_fit(stream.X, stream.y)
    assert not hasattr(model, "n_features_in_")


def test_no_warning_and_no_nan_from_extreme_but_legal_features():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (1e-30, 1e-6, 1e6, 1e11):
            for scale in (None, "auto"):
                stream = Stream()
                model = learner(scale=scale).partial_fit(stream.X * size, stream.y)
                assert np.isfinite(model.weights_).all()
                assert np.isfinite(model.predict_proba(stream.X * size)).all()


def test_models_can_be_deep_copied_and_pickled(stream):
    import copy
    import pickle

    model = learner().partial_fit(stream.X[:80], stream.y[:80])
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin.partial_fit(stream.X[80:], stream.y[80:])
        again = copy.deepcopy(model).partial_fit(stream.X[80:], stream.y[80:])
        assert np.array_equal(twin.predict_proba(stream.X), again.predict_proba(stream.X))


@pytest.mark.parametrize("shape", [(3, 5, 7), (1000, 160, 20), (300, 20, 160), (50, 9000, 40), (1, 1, 1)])
def test_products_in_pieces_are_the_product(shape):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=shape[:2]).astype(np.float32), rng.normal(size=shape[1:]).astype(np.float32)
    assert np.allclose(small_product(A, B), A @ B, rtol=1e-4, atol=1e-3)


# ---- the vote where exp(gamma - 1) leaves the range of float32 --------------------------------------


def test_a_query_equal_to_an_exemplar_is_answered_by_its_class_however_small_beta_is():
    rng = np.random.default_rng(0)
    for beta in (0.01, 1e-6, 1e-30):
        model = learner(beta=beta)
        for task in range(2):
            y = np.repeat([2 * task, 2 * task + 1], 5)
            model.partial_fit(3 * y[:, None] + rng.normal(size=(10, 6)), y, task=task)
        stored = model.exemplars_
        seen = model.vote(stored.features)
        assert np.array_equal(seen.winner_task, stored.tasks)
        assert all(np.isfinite(part).all() for part in (seen.s_hat, seen.prior, seen.gamma, seen.score))
        P = model.predict_proba(stored.features)
        assert np.isfinite(P).all()
        assert np.array_equal(model.classes_[P.argmax(1)], model.predict(stored.features))


def test_hundreds_of_tasks_are_told_apart_on_their_own_exemplars():
    """The pilot's beta falls with the number of tasks: 300 of one class each made every score infinite in float32."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(300, 16))
    model = learner(budget=600)
    for task, centre in enumerate(centres):
        model.partial_fit(centre + rng.normal(size=(3, 16)), [task] * 3, task=task)
    stored = model.exemplars_
    assert model.beta_ < 0.05
    assert model.score(stored.features, stored.labels) == 1
    assert np.isfinite(model.predict_proba(stored.features)).all()


@pytest.mark.filterwarnings("ignore:there are more classes than the budget")
@pytest.mark.parametrize("beta", [0.5, 0.02, 0.002, 1e-4])
def test_the_winner_is_that_of_float64_also_with_tasks_that_have_no_exemplar(beta):
    rng = np.random.default_rng(1)
    model = learner(budget=8, beta=beta)
    for task in range(6):
        y = np.repeat([2 * task, 2 * task + 1], 5)
        model.partial_fit(rng.normal(size=(10, 5)) + y[:, None] % 3, y, task=task)
    stored = model.exemplars_.features
    queries = np.concatenate((stored, stored + 1e-4, rng.normal(size=(200, 5)).astype(np.float32)))
    seen = model.vote(queries)
    w, s_hat = seen.prior.astype(np.longdouble), seen.s_hat.astype(np.longdouble)
    gamma = (w.max(1, keepdims=True) - w.min(1, keepdims=True)) / beta
    log_first = np.maximum(gamma - 1, 0)  # Eq. 5 over exp of it, in the widest floats there are
    exact = s_hat * np.exp(-log_first) + np.exp(gamma - 1 - log_first) * w
    assert (seen.prior == 0).all(0).any()
    assert np.array_equal(seen.winner_task, exact.argmax(1))
    assert np.isfinite(seen.score).all()


def test_asking_for_a_vote_before_learning_says_so():
    for model in (vs.CandidatesVoting(), vs.GaussianVoting()):
        with pytest.raises(NotFittedError, match="call partial_fit first"):
            model.vote([[1.0, 2.0]])
