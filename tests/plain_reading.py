"""The paper read plainly: one sample at a time, one equation a function, nothing shared with the package.

Slow on purpose. The tests hold the package against it, and benchmarks/learn_speed.py its speed.
"""

from __future__ import annotations

import numpy as np


class OnlineSampler:
    """Algorithm 1, with q = floor(Q / C), C the classes seen so far."""

    def __init__(self, Q):
        self.Q = Q
        self.mean, self.count, self.E = {}, {}, {}

    def see(self, v, y):
        if y not in self.E:
            self.E[y], self.mean[y], self.count[y] = [], np.zeros(len(v)), 0
            self.q = max(1, self.Q // len(self.E))
            for other in self.E:
                while len(self.E[other]) > self.q:
                    del self.E[other][self.farthest(other)]
        n = self.count[y]
        self.mean[y] = n / (n + 1) * self.mean[y] + 1 / (n + 1) * v.astype(np.float64)
        self.count[y] = n + 1
        if len(self.E[y]) < self.q:
            if sum(map(len, self.E.values())) < self.Q:
                self.E[y].append(v)
            return
        self.E[y].append(v)
        distances = self.distances(y)
        if distances[:-1].max() > distances[-1]:
            del self.E[y][int(distances[:-1].argmax())]
        else:
            del self.E[y][-1]

    def distances(self, y):
        return ((np.array(self.E[y], np.float64) - self.mean[y]) ** 2).sum(1)

    def farthest(self, y):
        return int(self.distances(y).argmax())


def candidates(o, task_of_class):
    """Eq. 3: for each task its best class and that class's logit."""
    y, s = [], []
    for k in range(max(task_of_class) + 1):
        own = [c for c, task in enumerate(task_of_class) if task == k]
        best = max(own, key=lambda c: (o[c], -c))
        y.append(best)
        s.append(o[best])
    return y, np.array(s, np.float64)


def normalised(s, norms, eps_n=1e-8):
    return (s - s.min()) / (eps_n + (s - s.min()).sum()) / norms


def pnn_prior(f, exemplars, tasks, n_tasks, eps_r=1e-8):
    """Eq. 4."""
    alpha = np.zeros(n_tasks)
    for k in range(n_tasks):
        distances = [np.sqrt(((f - v) ** 2).sum()) for v, task in zip(exemplars, tasks, strict=True) if task == k]
        alpha[k] = 1 / (eps_r + min(distances)) if distances else 0.0
    return alpha / alpha.sum()


def vote(s_hat, w, beta):
    """Eq. 5: gamma, the score of every task, the winner."""
    gamma = (w.max() - w.min()) / beta
    score = s_hat + np.exp(gamma - 1) * w
    return gamma, score, int(score.argmax())


class PlainLearner:
    """The whole method, learning and inference, for tasks that the caller announces."""

    def __init__(self, Q=2000, lr=0.1, beta=0.5, seed=0):
        self.sampler = OnlineSampler(Q)
        self.lr, self.beta = lr, beta
        self.rng = np.random.default_rng(seed)
        self.W = None
        self.task_of_class, self.block_start = [], 0
        self.square = {}

    def new_task(self):
        self.block_start = len(self.task_of_class)

    def learn(self, X, y):
        """One mini-batch; classes are numbers in order of first appearance."""
        D = X.shape[1]
        if self.W is None:
            self.W = np.empty((0, D), np.float32)
        for c in y:
            if c == len(self.task_of_class):
                task = max(self.task_of_class[: self.block_start], default=-1) + 1
                self.task_of_class.append(task)
                row = self.rng.uniform(-1, 1, (1, D)).astype(np.float32) / np.sqrt(D)
                self.W = np.concatenate([self.W, row.astype(np.float32)])
        earlier = [(v, c) for c in range(self.block_start) for v in self.sampler.E[c]]
        if earlier:
            pairs = [earlier[i] for i in self.rng.integers(len(earlier), size=len(X))]
            augmented = [v + self.rng.standard_normal(D) * self.sigma(c) for v, c in pairs]
            X_all = np.concatenate([X, np.array(augmented, np.float32)])
            y_all = np.concatenate([y, [c for _, c in pairs]])
        else:
            X_all, y_all = X, y
        logits = X_all @ self.W.T
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y_all)), y_all] -= 1
        gradient = p.T @ X_all / len(X_all)
        self.W[self.block_start :] -= self.lr * gradient[self.block_start :]
        for v, c in zip(X, y, strict=True):
            self.sampler.see(v, c)
            self.square[c] = self.square.get(c, 0) + v.astype(np.float64) ** 2

    def sigma(self, c):
        n = self.sampler.count[c]
        return np.sqrt(np.maximum(self.square[c] / n - self.sampler.mean[c] ** 2, 0))

    def predict(self, X):
        exemplars = [v for c in self.sampler.E for v in self.sampler.E[c]]
        tasks = np.array([self.task_of_class[c] for c in self.sampler.E for _ in self.sampler.E[c]])
        E = np.array(exemplars)
        answers = []
        for f in X:
            y, s = candidates(self.W @ f, self.task_of_class)
            s_hat = normalised(s, np.linalg.norm(self.W[y], axis=1))
            distances = np.sqrt(((E - f) ** 2).sum(1))
            alpha = np.array([1 / (1e-8 + distances[tasks == k].min()) for k in range(len(y))])
            answers.append(y[vote(s_hat, alpha / alpha.sum(), self.beta)[2]])
        return np.array(answers)
