"""Losses of the offline rivals: distillation from the network before the task, and the labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def outputs(teacher: nn.Module, pixels: Tensor) -> Tensor:
    """A teacher's logits; it is not changed and no gradient reaches it."""
    with torch.no_grad():
        found: Tensor = teacher(pixels).float()
        return found


def soft_cross_entropy(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """-Σ p log q over classes, mean over images; p and q are the softmax of teacher and student, both over T.

    >>> float(soft_cross_entropy(torch.zeros(1, 2), torch.tensor([[9.0, -9.0]]), 2.0))  # log 2
    0.6931471824645996
    """
    p = (teacher / temperature).softmax(1)
    return -(p * (logits.float() / temperature).log_softmax(1)).sum(1).mean()


def shared_loss(logits: Tensor, labels: Tensor, teacher: Tensor | None, old: Tensor, temperature: float) -> Tensor:
    """(1 - λ) cross-entropy over all classes + λ distillation over the old ones, λ = n_old / n: of BiC and WA.

    The teacher, the logits of the network before, is None where no class is old (`knowledge.absent_classes`).
    """
    value, share = F.cross_entropy(logits.float(), labels), len(old) / logits.shape[1]
    if teacher is None:
        return value
    distilled = soft_cross_entropy(logits.index_select(1, old), teacher.index_select(1, old), temperature)
    return (1 - share) * value + share * distilled


def sigmoid_loss(logits: Tensor, labels: Tensor, teacher: Tensor | None, old: Tensor) -> Tensor:
    """iCaRL's Algorithm 3, a sigmoid a class: old classes' targets are the teacher's outputs, new ones' the labels.

    The teacher, the logits of the network before, is None where no class is old (`knowledge.absent_classes`).
    Summed over classes as the paper writes it, mean over images. The authors' code takes the mean over the 100
    classes too, so its learning rate of 2.0 is 0.02 here, and its weight decay of 1e-5 is 1e-3.
    """
    targets = torch.zeros_like(logits, dtype=torch.float32).scatter_(1, labels[:, None], 1.0)
    if teacher is not None:
        targets.index_copy_(1, old, teacher.index_select(1, old).sigmoid().float())
    return F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="sum") / len(labels)
