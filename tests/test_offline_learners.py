"""The rivals that pass over a task many times: when they learn, and what makes each of them itself."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import votestream as vs
from conftest import ImageStream, make_on_network, one_thread, same_model
from votestream.learners.network.augmentation import brightened
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.passes import train
from votestream.learners.offline import offline_learner as offline
from votestream.learners.offline.bic import corrected
from votestream.learners.offline.distillation import shared_loss, sigmoid_loss, soft_cross_entropy
from votestream.learners.offline.offline_learner import OfflineLearner
from votestream.learners.offline.wa import align
from votestream.memory.herding import herd
from votestream.testing.samples import as_images

OFFLINE = sorted(name for name in vs.list_learners() if isinstance(vs.create(name), OfflineLearner))
BY_TASK = [name for name in OFFLINE if name != "joint_images"]
TEACHING = ["bic", "eeil", "icarl", "kd", "lwf", "wa"]


@pytest.fixture(autouse=True)
def single_thread():
    with one_thread():
        yield


@pytest.fixture
def images():
    """Labels count up in order of first appearance, so that they are the class numbers as well."""
    stream = ImageStream()
    order = list(dict.fromkeys(stream.y.tolist()))
    stream.tasks = [(X, np.argsort(order)[y]) for X, y in stream.tasks]
    stream.y = np.argsort(order)[stream.y]
    return stream


def numbered(n_classes, n):
    """Images whose first pixel tells their number; labels in turn."""
    y = np.arange(n_classes * n) % n_classes
    X = as_images(np.random.default_rng(0).normal(size=(len(y), 12)) + 2 * np.eye(12)[y])
    X[:, 0, 0, 0] = np.arange(len(X))
    return X, y


def fitted(name, tasks, **params):
    model = make_on_network(name)(**params)
    for X, y in tasks:
        model.fit_task(X, y)
    return model


def state(network):
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def spied(model, monkeypatch):
    """What each stage is trained on: images, labels, loss, learning rates, and the network it leaves."""
    stages, real = [], model._pass

    def spy(network, images_and_labels, loss, random, rates, **how):
        real(network, images_and_labels, loss, random, rates, **how)
        images, labels = images_and_labels
        stages.append((images.clone(), labels.clone(), loss, rates, state(network)))

    monkeypatch.setattr(model, "_pass", spy)
    return stages


def entropy(logits, targets):
    """-Σ p log softmax(logits) by NumPy, mean over rows."""
    logits = np.asarray(logits, np.float64)
    log = logits - logits.max(1, keepdims=True)
    log -= np.log(np.exp(log).sum(1, keepdims=True))
    return float(-(targets * log).sum(1).mean())


def softmax(logits):
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


# ---- when they learn ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_TASK)
def test_a_task_at_once_is_the_same_as_its_mini_batches_and_the_next_task(name, images):
    at_once, waiting = make_on_network(name)(), make_on_network(name)()
    for number, (X, y) in enumerate(images.tasks):
        at_once.fit_task(X, y, task=number)
        for i in range(0, len(X), 7):
            waiting.partial_fit(X[i : i + 7], y[i : i + 7], task=number)
        assert np.array_equal(at_once.predict_proba(images.X), waiting.predict_proba(images.X))
    assert len(at_once.memory_.waiting) == 0
    assert len(waiting.memory_.waiting) == 60
    for model in (at_once, waiting):
        model.partial_fit(images.X[:1], ["new"], task="next")
    assert same_model(at_once, waiting)


def test_nothing_is_trained_before_the_task_is_over_or_an_answer_asked_for(images):
    model, (X, y) = make_on_network("finetune")(), images.tasks[0]
    model.partial_fit(X, y, task=0)
    start = state(model.memory_.known.network)
    model.predict(X)
    assert equal(state(model.memory_.known.network), start)
    assert len(model.exemplars_.labels) == 0
    ahead = model.memory_.ahead[0]
    model.partial_fit(*images.tasks[1], task=1)
    assert model.memory_.known is ahead  # the training for that answer is not done again
    assert len(model.exemplars_.labels) == 60
    assert model.memory_.ahead is None


def test_an_answer_is_trained_once_for_many_questions(images):
    model = make_on_network("icarl")().partial_fit(*images.tasks[0])
    model.predict(images.X)
    ahead = model.memory_.ahead[0]
    model.predict_proba(images.X)
    assert model.memory_.ahead[0] is ahead
    model.partial_fit(images.X[:1], images.y[:1])
    assert model.memory_.ahead is None


def test_a_class_that_comes_late_is_learned_with_its_task(images):
    """The ledger puts it in a task on trial, and finds within a few samples that the two are one."""
    X, y = images.X, np.array([0, 1] * 10 + [2, 0, 1, 2] * 10 + [3] * 60 + [4] * 30)
    model = make_on_network("finetune")().partial_fit(X[: len(y)], y)
    assert model.task_of_class_.tolist() == [0, 0, 0, 1, 2]
    assert model.memory_.known.heads == [3, 4]
    assert model.memory_.known.tasks == 2
    model.predict(X)
    assert model.memory_.ahead[0].heads == [3, 4, 5]


def test_fit_task_makes_one_task_of_what_it_is_given(images):
    model = make_on_network("finetune")()
    model.fit_task(images.X[:120], images.y[:120]).fit_task(*images.tasks[2])
    assert model.tasks_ == ["task 1", "task 2"]
    assert model.task_of_class_.tolist() == [0, 0, 0, 0, 1, 1]
    assert model.memory_.known.heads == [4, 6]


def test_no_more_than_there_is_room_for_waits(images):
    model, most = make_on_network("finetune")(max_waiting=25), 0
    for X, y in images.batches(10):
        model.partial_fit(X, y, task=0)
        most = max(most, len(model.memory_.waiting))
    assert most == 20
    assert model.memory_.known.tasks == 7  # 180 // 25
    at_once = make_on_network("finetune")(max_waiting=25).partial_fit(images.X, images.y, task=0)
    assert same_model(model, at_once)


def test_a_bad_task_leaves_the_model_as_it_was(images):
    model = fitted("kd", images.tasks[:1])
    untouched = copy.deepcopy(model)
    with pytest.raises(ValueError, match="differ in length"):
        model.fit_task(images.X, images.y[1:])
    assert same_model(model, untouched)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"epochs": 0}, "epochs"),
        ({"preset": "paper"}, "preset"),
        ({"budget": -1}, "budget"),
        ({"max_waiting": 0}, "max_waiting"),
    ],
)
def test_settings_that_make_no_sense_are_named(images, params, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_on_network("finetune")(**params).fit_task(images.X, images.y)


def test_the_short_preset_makes_a_fifth_of_the_passes():
    rates = vs.WeightAligning(preset="short")._rates()
    assert len(rates) == 50
    assert rates == pytest.approx([0.1] * 20 + [0.01] * 10 + [0.001] * 10 + [0.0001] * 10)
    assert len(vs.ICaRL()._rates()) == 70
    assert vs.ICaRL()._rates()[48:50] == [0.02, 0.004]
    assert vs.ICaRL()._rates()[62:64] == pytest.approx([0.004, 0.0008])


@pytest.mark.parametrize("name", OFFLINE)
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_the_first_pass_is_at_the_rate_that_was_asked_for(name, epochs, images, monkeypatch):
    model = make_on_network(name)(epochs=epochs, lr=0.05)
    stages = spied(model, monkeypatch)
    model.fit_task(*images.tasks[0]).predict(images.X)
    assert stages[0][3][0] == 0.05


CIFAR_100 = {  # lr, passes, mini-batch, weight decay; when the rate drops, by what it is divided
    "lwf": (0.02, 70, 128, 1e-3, (0.7, 0.9), 5),
    "icarl": (0.02, 70, 128, 1e-3, (0.7, 0.9), 5),
    "eeil": (0.1, 70, 128, 1e-4, (0.25, 0.5, 0.75), 10),
    "bic": (0.1, 250, 128, 2e-4, (0.4, 0.6, 0.8), 10),
    "wa": (0.1, 250, 32, 2e-4, (0.4, 0.6, 0.8), 10),
    "finetune": (0.1, 70, 128, 1e-5, (0.7, 0.9), 5),
}


@pytest.mark.parametrize("name", CIFAR_100)
def test_the_defaults_are_the_recipes_for_cifar_100(name):
    model = vs.create(name)
    *numbers, drops, factor = CIFAR_100[name]
    assert [model.lr, model.epochs, model.batch_size, model.weight_decay] == numbers
    assert model._drops == pytest.approx(drops)
    assert model._factor == factor
    assert model.momentum == 0.9


@pytest.mark.parametrize("seed", [2**44, 2**63 - 1])
def test_seeds_may_be_large(seed, images):
    fitted("finetune", images.tasks[:2], seed=seed)


@pytest.mark.parametrize("name", OFFLINE)
@pytest.mark.parametrize("augment", [True, False])
def test_images_are_shifted_and_mirrored_and_eeils_of_other_colours(name, augment, images, monkeypatch):
    asked = []
    monkeypatch.setattr(offline, "train", lambda *_, augment, **more: asked.append(augment))
    fitted(name, images.tasks[:1], augment=augment).predict(images.X)
    assert set(asked) == {None if not augment else "colour" if name == "eeil" else "shift"}


# ---- the loop -----------------------------------------------------------------------------------


def test_a_task_is_plain_torch_sgd_with_momentum_and_a_rate_that_drops(images):
    X, y = images.tasks[0]
    model = make_on_network("finetune")(epochs=10, batch_size=60, weight_decay=0.01).fit_task(X, y)
    network = model.new_memory(model.n_features_in_).known.network
    network.grow(2, torch.Generator().manual_seed(0))
    optimiser = torch.optim.SGD(network.train().parameters(), 0.2, momentum=0.9, weight_decay=0.01)
    for epoch in range(10):
        optimiser.param_groups[0]["lr"] = 0.2 / 5 ** ((epoch >= 7) + (epoch >= 9))
        optimiser.zero_grad()
        F.cross_entropy(network(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimiser.step()
    for name, wanted in network.state_dict().items():
        assert torch.allclose(model.memory_.known.network.state_dict()[name], wanted, atol=1e-4), name


def test_every_image_is_seen_once_a_pass_in_batches_of_nearly_equal_size():
    X, y = numbered(2, 50)
    network = make_on_network("finetune")().fit_task(X, y).memory_.known.network
    seen = []

    def loss(pixels, labels):
        seen.append(labels)
        return F.cross_entropy(network(pixels), labels % 2)

    images, numbers = torch.from_numpy(X), torch.arange(100)
    train(network, images, numbers, loss, torch.Generator(), rates=[0.1, 0.1], batch_size=33, augment=None)
    assert [len(part) for part in seen] == [25] * 8
    passes = torch.cat(seen[:4]).tolist(), torch.cat(seen[4:]).tolist()
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(100))
    assert passes[0] != passes[1]
    assert not network.training


@pytest.mark.parametrize("augment", [None, "shift", "colour"])
def test_every_pass_shows_other_versions_of_the_images(augment):
    network = Classifier(vs.create_backbone("reduced_resnet18", device="cpu")).eval()
    network.grow(2, torch.Generator().manual_seed(0))
    images = torch.full((8, 32, 32, 3), 100, dtype=torch.uint8)
    images[:, :16, :16] = 50  # one corner is darker
    seen = []

    def loss(pixels, labels):
        seen.append(((pixels + network.shift) / network.scale).round())
        return network.bias.sum() * 0

    train(network, images, torch.zeros(8, dtype=torch.int64), loss, torch.Generator(), rates=[0.1] * 9, augment=augment)
    pixels = torch.cat(seen).permute(0, 2, 3, 1)
    plain = (pixels == images[0]).flatten(1).all(1)
    shades = {int(shade) for shade in pixels.unique()}
    if augment is None:
        assert plain.all()
    else:
        assert plain.float().mean() < 0.2
        assert pixels[:, 0, 0, 0].unique().tolist() != [50]
        assert (shades == {0, 50, 100}) == (augment == "shift")  # 0 is beyond the edge


def test_images_are_as_they_are_or_of_other_brightness_or_contrast():
    random = torch.Generator().manual_seed(0)
    images = torch.randint(90, 150, (900, 4, 4, 3), dtype=torch.uint8, generator=random)
    made = brightened(images, torch.rand(2, 900, generator=random)).int()
    shift = (made - images).flatten(1)
    same = (shift == 0).all(1)
    brighter = (shift == shift[:, :1]).all(1) & ~same
    assert 240 < same.sum() < 360
    assert 240 < brighter.sum() < 360
    assert -63 <= shift[brighter].min() < -55
    assert 55 < shift[brighter].max() <= 63
    rest = ~(same | brighter)
    contrast = made[rest].float().flatten(1).std(1) / images[rest].float().flatten(1).std(1)
    assert 0.15 < contrast.min() < 0.3
    assert 1.7 < contrast.max() < 1.85


# ---- distillation -------------------------------------------------------------------------------


def test_soft_targets_are_a_softmax_over_the_classes_at_the_temperature_and_not_over_the_batch():
    rng = np.random.default_rng(0)
    logits, teacher = rng.normal(size=(2, 5, 4)) * 3
    wanted = entropy(logits / 2, softmax(teacher / 2))
    assert float(soft_cross_entropy(torch.tensor(logits), torch.tensor(teacher), 2.0)) == pytest.approx(wanted, 1e-5)
    alone = [
        float(soft_cross_entropy(torch.tensor(logits[i : i + 1]), torch.tensor(teacher[i : i + 1]), 2.0))
        for i in range(5)
    ]
    assert np.mean(alone) == pytest.approx(wanted, 1e-5)


@pytest.mark.parametrize(("n_old", "n"), [(8, 10), (2, 10)])
def test_lambda_is_the_share_of_old_classes_and_weighs_the_distillation(n_old, n):
    rng = np.random.default_rng(0)
    logits, labels, teacher = rng.normal(size=(6, n)), rng.integers(0, n, 6), rng.normal(size=(6, n_old))
    share = n_old / n
    distilled = entropy(logits[:, :n_old] / 2, softmax(teacher / 2))
    wanted = (1 - share) * entropy(logits, np.eye(n)[labels]) + share * distilled
    tensors = (torch.tensor(part) for part in (logits, labels, teacher))
    made = shared_loss(*tensors, old=torch.arange(n_old), temperature=2.0)
    assert float(made) == pytest.approx(wanted, 1e-5)


def test_without_a_teacher_the_shared_loss_is_cross_entropy():
    logits, labels = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])
    assert torch.equal(shared_loss(logits, labels, None, torch.arange(0), 2.0), F.cross_entropy(logits, labels))


@pytest.mark.parametrize("old", [[0, 1, 2], [0, 2]])
def test_the_shared_loss_pulls_old_answers_to_the_teachers_and_all_to_the_labels(old):
    """Its gradient by hand: (1 - λ) (softmax - labels) + λ (softmax - teacher's softmax) / T over the old classes."""
    rng = np.random.default_rng(0)
    logits, labels, teacher = rng.normal(size=(6, 5)), rng.integers(0, 5, 6), rng.normal(size=(6, 3))
    share = len(old) / 5
    wanted = (1 - share) * (softmax(logits) - np.eye(5)[labels]) / 6
    wanted[:, old] += share * (softmax(logits[:, old] / 2) - softmax(teacher[:, old] / 2)) / 2 / 6
    given = torch.tensor(logits, requires_grad=True)
    value = shared_loss(given, torch.tensor(labels), torch.tensor(teacher), torch.tensor(old), 2.0)
    assert np.allclose(torch.autograd.grad(value, given)[0], wanted, atol=1e-6)


def test_icarls_loss_is_summed_over_classes_with_the_old_networks_sigmoids_as_targets():
    rng = np.random.default_rng(0)
    logits, teacher, labels = rng.normal(size=(4, 5)), rng.normal(size=(4, 3)), np.array([0, 3, 4, 2])
    total = 0.0
    for row in range(4):
        for number in range(5):
            p = 1 / (1 + np.exp(-logits[row, number]))
            target = 1 / (1 + np.exp(-teacher[row, number])) if number < 3 else float(labels[row] == number)
            total -= target * np.log(p) + (1 - target) * np.log(1 - p)
    made = sigmoid_loss(*(torch.tensor(part) for part in (logits, labels, teacher)), old=torch.arange(3))
    assert float(made) == pytest.approx(total / 4, 1e-5)


@pytest.mark.parametrize("name", TEACHING)
def test_a_teacher_is_frozen_evaluating_and_the_same_for_a_whole_task(name, images):
    model = fitted(name, images.tasks[:1])
    teacher = model.memory_.known.network
    before, asked = state(teacher), []
    hook = teacher.body.register_forward_pre_hook(
        lambda module, _: asked.append((module.training, torch.is_grad_enabled())) if module is teacher.body else None
    )
    model.fit_task(*images.tasks[1])
    hook.remove()
    assert len(asked) >= 6  # a pass and a mini-batch each
    assert set(asked) == {(False, False)}
    assert equal(state(teacher), before)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert model.memory_.known.network is not teacher


def test_distillation_is_weighed_by_the_squared_temperature(images):
    model = fitted("kd", images.tasks[:2])
    X, y = (torch.from_numpy(part) for part in images.tasks[2])
    network = copy.deepcopy(model.memory_.known.network)
    network.grow(6, torch.Generator().manual_seed(0))
    with torch.no_grad():
        value = float(model._loss(network, model.memory_.known, torch.arange(4))(network.pixels(X), y))
        logits, old = network(X).numpy(), model.memory_.known.network(X).numpy()
    wanted = entropy(logits, np.eye(6)[y]) + 4 * entropy(logits[:, :4] / 2, softmax(old / 2))
    assert value == pytest.approx(wanted, 1e-4)


@pytest.mark.parametrize("name", TEACHING)
def test_what_the_teacher_answers_changes_the_gradient(name, images):
    model = fitted(name, images.tasks[:2])
    known, (X, y) = model.memory_.known, (torch.from_numpy(part) for part in images.tasks[2])
    network = copy.deepcopy(known.network)
    network.grow(6, torch.Generator().manual_seed(0))
    gradients = []
    for factor in (1.0, -1.0):
        known.network.weight.data *= factor
        value = model._loss(network, known, torch.arange(4))(network.pixels(X), y)
        gradients.append(torch.autograd.grad(value, network.weight)[0])
    assert not torch.allclose(*(gradient[:4] for gradient in gradients), rtol=0.1)
    assert model._loss(network, known, torch.arange(4))(network.pixels(X), y).requires_grad


@pytest.mark.parametrize("name", TEACHING)
def test_of_classes_that_come_back_the_labels_count_and_not_the_teacher(name, images):
    """The first task once more, its two classes swapped: they are learned as told, the second's are kept."""
    X, y = images.tasks[0]
    model = fitted(name, images.tasks[:2], budget=4 if name == "icarl" else 0)
    before = model.predict_proba(images.tasks[1][0])[:, 2:].argmax(1)
    assert (model.predict_proba(X)[:, :2].argmax(1) == y).mean() > 0.9
    model.fit_task(X, 1 - y)
    assert (model.predict_proba(X)[:, :2].argmax(1) == 1 - y).mean() > 0.9
    assert (model.predict_proba(images.tasks[1][0])[:, 2:].argmax(1) == before).mean() > 0.9


@pytest.mark.parametrize("name", BY_TASK)
def test_a_told_task_is_learned_by_itself_even_if_it_has_no_new_class(name, images, tmp_path):
    tasks = [*images.tasks[:2], images.tasks[0], images.tasks[1]]
    at_once, waiting = make_on_network(name)(), make_on_network(name)()
    for number, (X, y) in enumerate(tasks):
        at_once.fit_task(X, y, task=number)
        waiting.partial_fit(X[:50], y[:50], task=number)
        waiting.save(tmp_path / "m.safetensors")
        waiting = vs.load(tmp_path / "m.safetensors").partial_fit(X[50:], y[50:], task=number)
    waiting._finish()
    assert waiting.memory_.known.tasks == 4
    assert same_model(at_once, waiting)


def test_lwf_keeps_no_image_by_itself(images):
    for name in ("lwf", "kd", "finetune"):
        assert vs.create(name).budget == 0
        assert len(fitted(name, images.tasks, budget=0).exemplars_.labels) == 0


# ---- exemplars ----------------------------------------------------------------------------------


def test_herding_is_the_greedy_definition_and_its_beginning_is_herding_of_fewer():
    features = F.normalize(torch.randn(30, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    chosen = []
    for k in range(1, 13):
        distance = {
            i: float((features.mean(0) - features[[*chosen, i]].sum(0) / k).norm())
            for i in range(30)
            if i not in chosen
        }
        chosen.append(min(distance, key=distance.get))
    assert herd(features, 12).tolist() == chosen
    assert herd(features, 5).tolist() == chosen[:5]
    assert sorted(herd(features, 99).tolist()) == list(range(30))


@pytest.mark.parametrize("name", BY_TASK)
@pytest.mark.parametrize("budget", [7, 11, 40])
def test_every_class_has_its_share_of_the_budget_rounded_down(name, budget, images):
    model = make_on_network(name)(budget=budget)
    for number, (X, y) in enumerate(images.tasks, start=1):
        counts = np.bincount(model.fit_task(X, y).exemplars_.labels)
        assert counts.tolist() == [budget // (2 * number)] * 2 * number


@pytest.mark.parametrize("name", [name for name in BY_TASK if name != "bic"])  # which herds in two parts
def test_exemplars_are_those_that_herding_finds_in_the_trained_networks_features(name, images):
    X, y = images.tasks[0]
    model = fitted(name, [(X, y)], budget=20)
    with torch.no_grad():
        features = F.normalize(model.memory_.known.network.features(torch.from_numpy(X)))
    kept = model.exemplars_
    for number in (0, 1):
        own = np.flatnonzero(y == number)
        chosen = own[herd(features[own], 10)]
        assert not np.array_equal(chosen, own[:10])
        assert np.array_equal(kept.features[kept.labels == number], X[chosen])


def test_a_quota_that_shrinks_keeps_what_herding_wanted_most(images):
    model = fitted("icarl", images.tasks[:1])
    before = model.exemplars_
    after = model.fit_task(*images.tasks[1]).exemplars_
    for number in (0, 1):
        assert np.array_equal(after.features[after.labels == number], before.features[before.labels == number][:15])


# ---- iCaRL --------------------------------------------------------------------------------------


@pytest.mark.parametrize("augment", [True, False])
def test_icarl_decides_by_the_nearest_mean_of_exemplars_and_with_augment_of_their_mirror_images(augment, images):
    """A mirrored image of 2 x 2 is another class here, so without augment none is looked at."""
    model = fitted("icarl", images.tasks, augment=augment)
    means = model.memory_.known.own["means"].numpy()
    assert np.allclose(np.linalg.norm(means, axis=1), 1, atol=1e-5)

    def features(images):
        with torch.no_grad():
            made = model.memory_.known.network.features(torch.from_numpy(np.ascontiguousarray(images))).numpy()
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    kept = model.exemplars_
    for number, mean in enumerate(means):
        own = kept.features[kept.labels == number]
        wanted = features(own).mean(0) + augment * features(own[:, :, ::-1]).mean(0)
        assert np.allclose(mean, wanted / np.linalg.norm(wanted), atol=1e-5)
    distances = np.linalg.norm(features(images.X)[:, None] - means, axis=2)
    assert np.array_equal(model.predict(images.X), distances.argmin(1))
    assert np.allclose(model.predict_proba(images.X), softmax(-(distances**2)), atol=1e-5)


def test_icarl_refuses_a_budget_smaller_than_the_classes(images):
    model = fitted("icarl", images.tasks[:2], budget=5)
    with pytest.raises(ValueError, match="budget of 5 is too small for 6 classes"):
        model.fit_task(*images.tasks[2])
    assert len(model.classes_) == 4


# ---- EEIL ---------------------------------------------------------------------------------------


def test_eeils_second_stage_has_as_many_images_of_every_class_at_a_tenth_of_the_rate(images, monkeypatch):
    model = make_on_network("eeil")(epochs=14)
    stages = spied(model, monkeypatch)
    for X, y in images.tasks:
        model.fit_task(X, y)
    assert len(stages) == 1 + 2 + 2  # the first task needs no balance
    for _, labels, _, rates, _ in stages[2::2]:
        counts = torch.bincount(labels).tolist()
        assert counts == [counts[0]] * len(counts)
        assert rates == pytest.approx([0.01] * 2 + [0.001] * 2 + [0.0001] * 2)
    for _, labels, _, rates, _ in stages[1::2]:
        assert torch.bincount(labels)[-2:].tolist() == [30, 30]
        assert rates == pytest.approx([0.1] * 2 + [0.01] * 2 + [0.001] * 2 + [0.0001] * 2)
    assert torch.bincount(stages[2][1]).tolist() == [30] * 4
    assert torch.bincount(stages[4][1]).tolist() == [15] * 6


def test_eeil_distils_every_old_head_and_in_the_second_stage_the_new_one_from_the_first(images):
    model = fitted("eeil", images.tasks[:2])
    known, (X, y) = model.memory_.known, (torch.from_numpy(part) for part in images.tasks[2])
    assert known.heads == [2, 4]
    network, after_main = copy.deepcopy(known.network), copy.deepcopy(known.network)
    network.grow(6, torch.Generator().manual_seed(0))
    after_main.grow(6, torch.Generator().manual_seed(1))
    with torch.no_grad():
        pixels = network.pixels(X)
        first = float(model._loss(network, known, torch.arange(4))(pixels, y))
        second = float(model._loss(network, known, torch.arange(4), after_main)(pixels, y))
        logits, old, own = (each(X).numpy() for each in (network, known.network, after_main))
    heads = [entropy(logits[:, head] / 2, softmax(old[:, head] / 2)) for head in (slice(0, 2), slice(2, 4))]
    newest = entropy(logits[:, 4:] / 2, softmax(own[:, 4:] / 2))
    wanted = entropy(logits, np.eye(6)[y]) + sum(heads)
    assert first == pytest.approx(wanted, 1e-4)
    assert second == pytest.approx(wanted + newest, 1e-4)


def test_eeils_teacher_of_the_new_head_is_the_network_as_the_first_stage_left_it(images, monkeypatch):
    model = fitted("eeil", images.tasks[:1])
    given, real = [], model._loss

    def spy(network, before, old, after_main=None):
        given.append((after_main, None if after_main is None else state(after_main)))
        return real(network, before, old, after_main)

    monkeypatch.setattr(model, "_loss", spy)
    stages = spied(model, monkeypatch)
    model.fit_task(*images.tasks[1])
    assert [after_main is None for after_main, _ in given] == [True, False]
    assert equal(given[1][1], stages[0][4])
    assert equal(state(given[1][0]), stages[0][4])  # after the second stage too
    assert not given[1][0].training


# ---- BiC ----------------------------------------------------------------------------------------


def test_bics_held_out_images_are_never_trained_on(monkeypatch):
    model = make_on_network("bic")(budget=80)
    stages, learned, held = spied(model, monkeypatch), set(), set()
    for first in (0, 2, 4):
        X, y = numbered(2, 40)
        X[:, 0, 0, 0] += 40 * first
        model.fit_task(X, y + first)
        learned |= set(stages[-1][0][:, 0, 0, 0].tolist())
        images, numbers = (part.numpy() for part in model.memory_.known.exemplars)
        aside = model.memory_.known.own["held"].numpy()
        held |= set(images[aside][:, 0, 0, 0].tolist())
        counts = np.bincount(numbers[aside])
        assert counts.tolist() == [80 // (first + 2) // 10] * (first + 2)
        assert not learned & held
    assert len(stages) == 3
    assert len(held) >= 6


def test_bics_second_stage_changes_nothing_in_the_network_not_even_batch_norms(images, monkeypatch):
    model = fitted("bic", images.tasks[:1])
    stages = spied(model, monkeypatch)
    model.fit_task(*images.tasks[1])
    assert equal(stages[-1][4], state(model.memory_.known.network))
    start, alpha, beta = model.correction_
    assert start == 2
    assert (alpha, beta) != (1, 0)


def test_bics_correction_is_the_best_for_the_logits_of_a_balanced_held_out_part(images, monkeypatch):
    model = fitted("bic", images.tasks[:1])
    given, real = [], model._learn_correction

    def spy(network, n_old, held):
        given.append(held)
        return real(network, n_old, held)

    monkeypatch.setattr(model, "_learn_correction", spy)
    model.fit_task(*images.tasks[1])
    (images, labels), (_, alpha, beta) = given[0], model.correction_
    assert torch.bincount(labels).tolist() == [3] * 4  # a tenth of the 30 exemplars that each old class had
    with torch.no_grad():
        logits = model.memory_.known.network(images).numpy()

    def loss(a, b):
        scores = np.concatenate([logits[:, :2], a * logits[:, 2:] + b], axis=1)
        return entropy(scores, np.eye(4)[labels]) + 0.1 * b**2 / 2

    best = loss(alpha, beta)
    around = [(alpha + 0.05, beta), (alpha - 0.05, beta), (alpha, beta + 0.05), (alpha, beta - 0.05)]
    assert all(loss(*other) > best for other in around)


@pytest.mark.parametrize("name", ["bic", "wa"])
def test_bic_corrects_the_newest_classes_only_and_the_teacher_of_bic_and_wa_is_what_answers(name, images):
    model = fitted(name, images.tasks[:2])
    known, (X, y) = model.memory_.known, (torch.from_numpy(part) for part in images.tasks[2])
    with torch.no_grad():
        wanted = known.network(X).numpy()
    if name == "bic":
        start, alpha, beta = model.correction_
        assert start == 2
        old = wanted.copy()
        wanted[:, start:] = alpha * old[:, start:] + beta
        assert np.allclose(corrected(torch.from_numpy(old), known), wanted, atol=1e-5)
    assert np.allclose(model.predict_proba(images.tasks[2][0]), softmax(wanted), atol=1e-5)
    network = copy.deepcopy(known.network)
    network.grow(6, torch.Generator().manual_seed(0))
    with torch.no_grad():
        value = float(model._loss(network, known, torch.arange(4))(network.pixels(X), y))
        logits = network(X).numpy()
    share = 4 / 6
    distilled = entropy(logits[:, :4] / 2, softmax(wanted / 2))
    assert value == pytest.approx((1 - share) * entropy(logits, np.eye(6)[y]) + share * distilled, 1e-4)


def test_bics_correction_is_learned_from_as_many_held_out_images_of_every_class(images):
    model = fitted("bic", images.tasks[:2])
    X, y = (torch.from_numpy(part) for part in (images.X[:120], images.y[:120]))
    few = torch.cat([(y == number).nonzero()[:3, 0] for number in range(4)])
    more = torch.cat([few, (y == 3).nonzero()[3:, 0]])
    learned = [model._learn_correction(model.memory_.known.network, 2, (X[rows], y[rows])) for rows in (few, more)]
    assert torch.equal(*learned)


def test_a_task_without_new_classes_leaves_bic_nothing_to_correct(images):
    """The network has learned the corrected answers of the one before: corrected again, newest classes would lose."""
    model = fitted("bic", [*images.tasks[:2], images.tasks[0]])
    assert model.correction_ is None
    with torch.no_grad():
        logits = model.memory_.known.network(torch.from_numpy(images.X)).numpy()
    assert np.allclose(model.predict_proba(images.X), softmax(logits), atol=1e-5)


# ---- WA -----------------------------------------------------------------------------------------


def test_rows_that_clipping_left_nothing_of_stay_zero_when_aligned():
    weight = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    align(weight, 1)
    assert weight.tolist() == [[1, 2], [0, 0]]


@pytest.mark.parametrize("clip", [True, False])
def test_wa_makes_the_norms_of_new_and_old_classes_equal_on_average(clip, images, monkeypatch):
    model = make_on_network("wa")(clip=clip)
    stages = spied(model, monkeypatch)
    for number, (X, y) in enumerate(images.tasks):
        model.fit_task(X, y)
        trained, weight, n_old = stages[-1][4], model.weights_, 2 * number
        assert np.array_equal(weight[:n_old], trained["weight"][:n_old])
        assert torch.equal(model.memory_.known.network.bias.detach(), trained["bias"])
        assert (weight.min() >= 0) == clip
        if number == 0:
            assert np.array_equal(weight, trained["weight"])
        else:
            norms = np.linalg.norm(weight, axis=1)
            assert norms[n_old:].mean() == pytest.approx(norms[:n_old].mean(), 1e-5)
            gamma = weight[n_old:] / np.where(trained["weight"][n_old:] == 0, 1, trained["weight"][n_old:])
            assert np.allclose(gamma[gamma > 0], gamma[gamma > 0][0], rtol=1e-4)  # all rows by one factor


# ---- the bound ----------------------------------------------------------------------------------


def test_joint_training_is_training_on_all_tasks_as_one_from_the_backbones_weights(images):
    settings = {"lr": 0.1, "epochs": 6, "batch_size": 90}
    joint = make_on_network("joint_images")(**settings)
    for X, y in images.tasks:
        joint.fit_task(X, y)
        joint.predict(X)
    at_once = make_on_network("finetune")(budget=0, **settings).fit_task(images.X, images.y)
    assert np.array_equal(joint.predict_proba(images.X), at_once.predict_proba(images.X))
    assert not joint.bounded
