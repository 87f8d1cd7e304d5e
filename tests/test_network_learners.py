"""The learners that train a network: what they share, and what makes each of them itself."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

import votestream as vs
from conftest import TRAINED, ImageStream, make_on_network, one_thread, same_model
from votestream.compute.graph_cache import MOST, PLAIN, GraphCache
from votestream.compute.random_pool import RandomPool
from votestream.learners.network.agem import project
from votestream.learners.network.augmentation import box, shift_and_flip
from votestream.learners.network.classifier import Classifier
from votestream.learners.network.gdumb import learning_rate
from votestream.learners.network.passes import shortened
from votestream.memory import ExemplarStore, ImageMemory, Reservoir, distinct


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


def learned(name, images, batches=None, **params):
    model = make_on_network(name)(**params)
    for X, y in list(images.batches())[:batches]:
        model.partial_fit(X, y)
    return model


def tensors(X, y):
    return torch.from_numpy(X), torch.from_numpy(y)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.memory_.network.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# ---- the network --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiny", "reduced_resnet18"])
def test_the_network_starts_as_the_backbone_is(name):
    backbone = vs.create_backbone(name, device="cpu")
    images = np.random.default_rng(0).integers(0, 256, (4, backbone.input_size, backbone.input_size, 3), np.uint8)
    with torch.no_grad():
        features = Classifier(backbone).eval().features(torch.from_numpy(images)).numpy()
    assert np.allclose(features, backbone(images) * backbone.feature_scale, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_training_leaves_the_backbone_it_was_given_as_it_was(name, images):
    backbone = vs.create_backbone("tiny", device="cpu")
    digest, features, source = backbone.digest, backbone(images.X), backbone.trainable().state_dict()
    model = learned(name, images, backbone=backbone)
    model.predict(images.X)
    assert backbone.digest == digest
    assert np.array_equal(backbone(images.X), features)
    assert equal(backbone.trainable().state_dict(), source)
    assert (
        model.prepared().predictor.network.body[0].weight.ne(source["0.weight"]).all()
    )  # every weight has learned something


def test_a_backbone_that_cannot_be_trained_says_so(images):
    plain = vs.create_backbone("tiny", device="cpu")
    other = vs.Backbone("elsewhere", plain._network, plain.preprocessing, weights_digest="x", device="cpu")
    with pytest.raises(ValueError, match="'elsewhere' cannot be trained"):
        vs.ExperienceReplay(backbone=other, device="cpu").partial_fit(images.X, images.y)


def test_the_head_grows_without_touching_the_rows_there():
    network = Classifier(vs.create_backbone("tiny", device="cpu"))
    random = torch.Generator().manual_seed(0)
    network.grow(3, random)
    before = network.weight.detach().clone(), network.bias.detach().clone()
    network.grow(40, random)
    assert torch.equal(network.weight[:3], before[0])
    assert torch.equal(network.bias[:3], before[1])
    bound = network.weight.shape[1] ** -0.5  # a linear layer's: uniform in ±1/sqrt(D)
    for drawn in (network.weight, network.bias):
        assert 0.9 * bound < drawn.abs().max() <= bound


def test_a_step_of_er_is_a_plain_torch_step(images):
    """Two mini-batches; the memory of ten is replayed whole with the second."""
    X, y = images.tasks[0]
    model = make_on_network("er")(lr=0.05, budget=10, replay=10)
    model.partial_fit(X[:10], y[:10])
    network = copy.deepcopy(model.memory_.network).train()
    model.partial_fit(X[10:20], y[10:20])

    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    images, labels = tensors(np.concatenate([X[10:20], X[:10]]), np.concatenate([y[10:20], y[:10]]))
    loss = F.cross_entropy(network(images), labels)
    loss.backward()
    optimiser.step()
    for name, wanted in network.state_dict().items():
        assert torch.allclose(model.memory_.network.state_dict()[name], wanted, atol=1e-6), name


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_calls_that_are_no_multiple_of_the_mini_batch_are_cut_as_they_would_be(name, images):
    X, y = images.tasks[0]
    at_once = make_on_network(name)().partial_fit(X[:25], y[:25], task=0)
    in_parts = make_on_network(name)()
    for rows in (slice(0, 10), slice(10, 20), slice(20, 25)):
        in_parts.partial_fit(X[rows], y[rows], task=0)
    assert same_model(at_once, in_parts)


def test_fine_tuning_keeps_no_image(images):
    assert len(learned("er", images, replay=0).exemplars_.features) == 0


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(12, 16), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(torch.relu(self.linear(x.flatten(1))))


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_dropout_is_seeded_resumed_and_leaves_torchs_own_random_state_alone(name, images, tmp_path):
    torch.manual_seed(5)
    backbone = vs.from_module(Dropping(), input_size=2, name="dropping", device="cpu")
    state = torch.get_rng_state()
    steady = learned(name, images, backbone=backbone)
    probabilities = steady.predict_proba(images.X)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    learned(name, images, 7, backbone=backbone).save(tmp_path / "m.safetensors")
    resumed = vs.load(tmp_path / "m.safetensors", backbone=backbone)
    for X, y in list(images.batches())[7:]:
        resumed.partial_fit(X, y)
    assert same_model(steady, resumed)
    assert np.array_equal(resumed.predict_proba(images.X), probabilities)


# ---- images in, images kept -----------------------------------------------------------------


def test_arrays_pil_images_and_paths_are_the_same_images(images, tmp_path):
    X, y = images.X[:30], images.y[:30]
    paths = [tmp_path / f"{number}.png" for number in range(len(X))]
    for path, pixels in zip(paths, X, strict=True):
        Image.fromarray(pixels).save(path)
    plain = make_on_network("er")().partial_fit(X, y)
    for other in (list(X), [Image.fromarray(x) for x in X], paths):
        assert same_model(plain, make_on_network("er")().partial_fit(other, y))
        assert np.array_equal(plain.predict_proba(X), plain.predict_proba(other))
    assert plain.predict(paths[0]).shape == (1,)


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_a_broken_image_is_named_and_leaves_the_model_as_it_was(name, images, tmp_path):
    model = learned(name, images, 8)
    untouched = copy.deepcopy(model)
    for X, complaint in (([images.X[0], tmp_path / "gone.png"], "no file"), ([], "empty"), ([3, 4], "give paths")):
        with pytest.raises(ValueError, match=complaint):
            model.partial_fit(X, ["new"] * len(X))
    for each in (model, untouched):
        each.partial_fit(images.X[:10], images.y[:10])
    assert same_model(model, untouched)


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_what_is_kept_are_images_of_the_stream_with_their_own_labels(name):
    """Every image's first pixel tells its number, and so its label."""
    X = np.random.default_rng(0).integers(0, 256, (240, 2, 2, 3), np.uint8)
    X[:, 0, 0, 0] = np.arange(240)
    y = np.arange(240) // 60
    if "budget" not in make_on_network(name)().get_params():
        return
    model = make_on_network(name)(budget=30)
    for i in range(0, 240, 10):
        model.partial_fit(X[i : i + 10], y[i : i + 10])
        kept = model.exemplars_
        numbers = kept.features[:, 0, 0, 0]
        assert np.array_equal(kept.features, X[numbers])
        assert np.array_equal(kept.labels, y[numbers])
        assert len(set(numbers.tolist())) == len(numbers) <= 30
    model.exemplars_.features[:] = 0
    assert model.exemplars_.features.any()  # what was handed out is a copy


def test_images_on_a_device_are_kept_as_the_rule_keeps_them_on_the_host():
    rng, rows = np.random.default_rng(0), np.arange(200)
    images, classes = rng.integers(0, 256, (200, 2, 2, 3), np.uint8), rng.integers(0, 3, 200)
    memory = ImageMemory(20, (2, 2, 3), "reservoir", seed=4, device=torch.device("cpu"))
    for part in np.array_split(rows, 23):
        memory.observe(*tensors(images[part], classes[part]), classes=classes[part])
    store = ExemplarStore(20, (2, 2, 3), np.uint8)
    Reservoir(torch.Generator().manual_seed(4)).offer(store, images, classes)
    assert np.array_equal(memory.store.images.numpy(), store.items)
    assert np.array_equal(memory.store.labels.numpy(), store.labels)


def test_memory_bytes_are_those_of_the_network_and_the_images(images):
    model = learned("er", images, budget=50)
    network = sum(tensor.nbytes for tensor in model.memory_.network.state_dict().values())
    held = network + 50 * 12
    assert held < model.memory_bytes() < held + 50 * 8 * 6 + 30_000  # and the ledger, and random numbers drawn ahead


def test_distinct_slots_are_distinct_and_every_one_is_as_likely():
    random, counts = RandomPool(0), np.zeros(20)
    for _ in range(4000):
        drawn = distinct(np.arange(20), 5, random)
        assert len(set(drawn.tolist())) == 5
        counts[drawn] += 1
    assert abs(counts / 4000 - 0.25).max() < 0.03


def test_loading_refuses_another_backbone(images, tmp_path):
    learned("er", images, 2).save(tmp_path / "m.safetensors")
    with pytest.raises(vs.ModelFileError, match="trained with the backbone 'tiny'"):
        vs.load(tmp_path / "m.safetensors", backbone="reduced_resnet18")


def test_image_files_are_answered_a_part_at_a_time(images, tmp_path, monkeypatch):
    model = learned("er", images, 6)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for path, image in zip(paths, images.X, strict=False):
        Image.fromarray(image).save(path)
    answers, sizes, check = model.predict_proba(images.X[:5]), [], model.rows_of
    monkeypatch.setattr("votestream.learners.network.network_learner.READ", 2)
    monkeypatch.setattr(model, "rows_of", lambda X, width: sizes.append(len(X)) or check(X, width))
    assert np.allclose(model.predict_proba(paths), answers, atol=1e-6)
    assert model.predict(paths).tolist() == model.classes_[answers.argmax(1)].tolist()
    assert sizes == [2, 2, 1] * 2
    with pytest.raises(ValueError, match="empty"):
        model.predict([])


# ---- A-GEM --------------------------------------------------------------------------------------


def test_the_projected_gradient_is_the_closed_form_and_never_raises_the_reference_loss():
    rng = np.random.default_rng(0)
    turned = 0
    for _ in range(50):
        g, ref = (tuple(torch.from_numpy(rng.normal(size=size)) for size in ((4, 3), (5,), ())) for _ in range(2))
        flat = [np.concatenate([part.numpy().ravel() for part in parts]) for parts in (g, ref, project(g, ref))]
        overlap = flat[0] @ flat[1]
        wanted = flat[0] - overlap / (flat[1] @ flat[1]) * flat[1] if overlap < 0 else flat[0]
        assert np.allclose(flat[2], wanted)
        assert flat[2] @ flat[1] >= -1e-9
        turned += overlap < 0
    assert 10 < turned < 40


def test_no_reference_gradient_leaves_the_gradient_as_it_is():
    assert project((torch.ones(3),), (torch.zeros(3),))[0].tolist() == [1, 1, 1]


def test_agem_steps_along_the_projected_gradient_against_images_of_earlier_tasks_only(images, monkeypatch):
    (X, y), (X2, y2) = images.tasks[:2]
    held, free = (make_on_network("agem")(replay=n, batch_size=10).partial_fit(X, y, task=1) for n in (15, 0))
    assert same_model(held, free)  # in the first task there is nothing to hold on to
    held.partial_fit(X2[:10], y2[:10], task=2)
    gradient, asked = held.gradient, []

    def spy(images, labels):
        asked.append((labels, gradient(images, labels)))
        return asked[-1][1]

    monkeypatch.setattr(held, "gradient", spy)
    turned = 0
    for i in range(10, 60, 10):
        before = list(map(torch.clone, held.memory_.network.parameters()))
        held.partial_fit(X2[i : i + 10], y2[i : i + 10], task=2)
        (new, g), (reference, g_ref) = asked[-2:]
        assert new.tolist() == y2[i : i + 10].tolist()
        assert len(reference) == 15
        assert reference.max() <= 1  # classes of the first task
        wanted = project(g, g_ref)
        turned += not torch.equal(wanted[0], g[0])
        for old, now, step in zip(before, held.memory_.network.parameters(), wanted, strict=True):
            assert torch.allclose(now, old - 0.1 * step, atol=1e-6)
    assert turned


@pytest.mark.parametrize("name", ["er", "gss", "aser"])
def test_without_replay_no_room_is_taken_for_images(name, images):
    bare, with_memory = (make_on_network(name)(budget=10_000, replay=n) for n in (0, 10))
    for model in (bare, with_memory):
        model.partial_fit(*images.tasks[0])
    assert with_memory.memory_bytes() - bare.memory_bytes() > 9_999 * 12


# ---- MIR ----------------------------------------------------------------------------------------


def test_mir_replays_what_the_coming_step_would_hurt_most(images, monkeypatch):
    """Found by brute force: a deep copy of the network takes the step, and losses are compared one by one."""
    model = learned("mir", images, 12, replay=4, candidates=25)
    X, y = tensors(*images.tasks[2])
    X, y = X[:10], y[:10]
    replayed = []

    def spy(images, labels):
        replayed.append(images)
        return gradient(images, labels)

    gradient, drawn = model.gradient, copy.deepcopy(model.memory_.random)
    drawn.uniform(1)  # the seed of the step
    known = copy.deepcopy(model.memory_.network)
    known.grow(6, drawn.generator)
    stepped = copy.deepcopy(known).train()
    F.cross_entropy(stepped(X), y).backward()
    with torch.no_grad():
        for parameter in stepped.parameters():
            parameter -= 0.1 * parameter.grad
    for name, buffer in known.named_buffers():
        stepped.get_buffer(name).copy_(buffer)
    candidates, classes = model.memory_.images.store.take(distinct(model.memory_.images.slots(), 25, drawn))
    rises = []
    for image, label in zip(candidates, classes, strict=True):
        with torch.no_grad():
            losses = [F.cross_entropy(each.eval()(image[None]), label[None]) for each in (known, stepped)]
        rises.append(float(losses[1] - losses[0]))
    worst = set(np.argsort(rises)[-4:].tolist())

    monkeypatch.setattr(model, "gradient", spy)
    model.partial_fit(X.numpy(), y.numpy())
    assert len(replayed) == 1
    assert {int((candidates == image).flatten(1).all(1).nonzero()[0]) for image in replayed[0][10:]} == worst


def test_scoring_leaves_network_and_batch_norm_statistics_as_they_were(images):
    model = learned("mir", images, 12)
    model.memory_.network.train()
    before, random = weights(model), torch.get_rng_state()
    rise = model._interference(*tensors(*images.tasks[1]), *model.memory_.images.store.take(np.arange(30)))
    assert rise.abs().max() > 0
    assert equal(weights(model), before)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(module.training for module in model.memory_.network.modules())
    assert all(parameter.grad is None for parameter in model.memory_.network.parameters())


def test_mir_with_no_more_candidates_than_replayed_is_er(images):
    er, mir = learned("er", images), learned("mir", images, candidates=10)
    assert same_model(er, mir)


# ---- GDumb --------------------------------------------------------------------------------------


def test_gdumbs_memory_is_balanced_at_every_moment(images):
    model, seen = make_on_network("gdumb")(budget=25), []
    for X, y in images.batches(1):
        model.partial_fit(X, y)
        seen += y.tolist()
        held = np.bincount(np.searchsorted(np.unique(seen), model.exemplars_.labels))
        came = np.bincount(np.searchsorted(np.unique(seen), seen))
        assert held.sum() <= 25
        assert all(n == min(came[i], n) and n >= min(came[i], held.max() - 1) for i, n in enumerate(held))


def test_gdumb_trains_from_the_backbones_weights_every_time(images):
    asked, left_alone = make_on_network("gdumb")(), make_on_network("gdumb")()
    start = copy.deepcopy(asked.partial_fit(images.X[:30], images.y[:30]).memory_.network.state_dict())
    left_alone.partial_fit(images.X[:30], images.y[:30])
    first = asked._train().state_dict()
    assert equal(asked._train().state_dict(), first)
    assert not torch.equal(first["body.0.weight"], start["body.0.weight"])
    asked.predict(images.X)
    assert equal(asked.memory_.network.state_dict(), start)  # a copy was trained
    for model in (asked, left_alone):
        model.partial_fit(images.X[30:], images.y[30:])
    assert np.array_equal(asked.predict_proba(images.X), left_alone.predict_proba(images.X))


def test_gdumb_trains_once_for_many_questions(images):
    model = learned("gdumb", images, 4)
    model.predict(images.X)
    trained = model.prepared().predictor.network
    model.predict_proba(images.X)
    assert model.prepared().predictor.network is trained
    model.partial_fit(images.X[:1], images.y[:1])
    assert model.prepared().predictor.network is not trained


def test_gdumbs_learning_rate_is_torchs_cosine_with_warm_restarts():
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimiser, T_0=1, T_mult=2, eta_min=0.0005)
    rates = []
    for _ in range(63):
        rates.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert np.allclose(rates, [learning_rate(epoch, 0.05) for epoch in range(1, 64)])
    assert learning_rate(0, 0.05) == pytest.approx(0.005)


def test_gdumbs_crops_are_shifts_of_the_padded_image_mirrored_or_not():
    images = torch.randint(1, 256, (30, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    made = shift_and_flip(images, torch.rand(3, 30, generator=torch.Generator().manual_seed(1)))
    padded = F.pad(images, (0, 0, 2, 2, 2, 2))
    ways = []
    for image, around in zip(made, padded, strict=True):
        windows = {(i, j): around[i : i + 16, j : j + 16] for i in range(5) for j in range(5)}
        found = [(*at, False) for at, window in windows.items() if torch.equal(window, image)]
        found += [(*at, True) for at, window in windows.items() if torch.equal(window.flip(1), image)]
        assert len(found) == 1
        ways += found
    assert {way[0] for way in ways} == {way[1] for way in ways} == set(range(5))
    assert 5 < sum(way[2] for way in ways) < 25


def test_cutmix_boxes_lie_in_the_image_and_vary_in_size():
    random = torch.Generator().manual_seed(0)
    boxes = np.array([box(32, torch.rand(3, generator=random)).tolist() for _ in range(500)])
    assert (boxes[:, 0] <= boxes[:, 1]).all()
    assert (boxes[:, 2] <= boxes[:, 3]).all()
    assert boxes.min() == 0
    assert boxes.max() == 32
    area = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2]) / 32**2
    assert area.min() < 0.02
    assert area.max() > 0.7


class Brightness(nn.Module):
    """Says of black and white images, mixed or not, how likely they are black and white."""

    def forward(self, images):
        self.white = images.mean((1, 2, 3))
        return torch.stack([1 - self.white, self.white], 1).log()


def test_cutmix_weighs_labels_by_their_share_of_the_image(images):
    model = make_on_network("gdumb")(cutmix=1.0).partial_fit(images.X, images.y)
    pixels = torch.tensor([0.0, 1.0])[:, None, None, None].repeat(1, 3, 8, 8)
    network, mixed = Brightness(), 0
    for seed in range(30):
        torch.manual_seed(seed)
        loss = model._loss(network, pixels, torch.tensor([0, 1]))
        white = network.white.double().numpy()
        entropy = [-sum(p * np.log(p) for p in (share, 1 - share) if p) for share in white]
        assert np.isclose(float(loss), np.mean(entropy), atol=1e-6) or not 0 < white[0] < 1
        mixed += 0 < white[0] < 1
    assert mixed > 5


@pytest.mark.parametrize("largest", [0.1, 1000.0])
def test_long_gradients_are_shortened_as_torch_clips_them(largest):
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in (5, (2, 3))]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    made = shortened(tuple(parameter.grad.clone() for parameter in parameters), largest)
    nn.utils.clip_grad_norm_(parameters, largest)
    assert all(torch.allclose(part, parameter.grad) for part, parameter in zip(made, parameters, strict=True))


# ---- a GPU --------------------------------------------------------------------------------------

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


@needs_gpu
def test_a_replayed_graph_gives_what_calling_gives_in_all_shapes_until_it_is_cleared():
    weight, captured, calls = torch.ones(3, device="cuda"), GraphCache(), []

    def add_up(rows):
        calls.append(len(rows))
        weight.add_(rows.sum(0))
        return weight * 2

    total = weight.clone()
    for i in range(3 * PLAIN):
        for n in (2, 5):
            rows = torch.full((n, 3), float(i), device="cuda")
            total += rows.sum(0)
            assert torch.equal(captured(add_up, rows), total * 2)
            assert torch.equal(weight, total)
    assert sorted(calls) == [2] * (PLAIN + 1) + [5] * (PLAIN + 1)  # the last of each was for the record
    weight = torch.zeros(3, device="cuda")
    captured.clear()
    assert captured(add_up, torch.ones(2, 3, device="cuda")).tolist() == [4, 4, 4]
    assert copy.deepcopy(captured)._graphs == {}


@needs_gpu
def test_not_more_than_a_few_shapes_are_held():
    captured = GraphCache()
    for n in range(1, MOST + 10):
        for _ in range(PLAIN + 2):
            assert captured(torch.neg, torch.ones(n, device="cuda")).tolist() == [-1] * n
    assert len(captured._graphs) == MOST


class Asking(nn.Module):
    """Goes by a number that the GPU is asked for, which no recording can."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(12, 5)

    def forward(self, images):
        return self.linear(images.flatten(1) * (2.0 if images.mean().item() > 0 else 1.0))


@needs_gpu
@pytest.mark.parametrize("name", ["er", "icarl"])
def test_a_network_that_waits_for_the_gpu_is_trained_all_the_same(name, images):
    torch.manual_seed(0)
    backbone = vs.from_module(Asking(), input_size=2, name="asking", device="cpu")
    here, there = (learned(name, images, backbone=backbone, device=device) for device in ("cpu", "cuda"))
    assert (here.predict(images.X) == there.predict(images.X)).mean() > 0.9


@needs_gpu
def test_settings_changed_on_the_way_count_at_once(images):
    model = learned("er", images, device="cuda")
    before = weights(model)
    model.set_params(lr=1e-30).partial_fit(images.X, images.y)
    after = weights(model)
    assert all(torch.equal(after[name], before[name]) for name, _ in model.memory_.network.named_parameters())


@needs_gpu
@pytest.mark.parametrize("name", sorted(TRAINED))
def test_a_gpu_learns_alike_resumes_exactly_and_is_never_waited_for(name, images, tmp_path):
    batches = list(images.batches())
    here, steady = learned(name, images), learned(name, images, device="cuda")
    learned(name, images, 7, device="cuda").save(tmp_path / "m.safetensors")
    resumed = vs.load(tmp_path / "m.safetensors")
    for X, y in batches[7:]:
        resumed.partial_fit(X, y)
    assert same_model(steady, resumed)
    assert (here.predict(images.X) == steady.predict(images.X)).mean() > 0.9
    torch.cuda.set_sync_debug_mode("error")
    try:
        steady.partial_fit(*batches[-1])
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_a_network_that_diverged_says_so_and_answers_nothing(name, images):
    X, y = images.X, images.y
    model = make_on_network(name)(lr=1e38).partial_fit(X, y, task=0)
    for ask in (model.predict, model.predict_proba, model.snapshot().predict_proba):
        with pytest.raises(ValueError, match=r"has diverged and .* an lr below 1e\+38"):
            ask(X[:3])
