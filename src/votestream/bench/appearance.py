"""How methods look, declared once for all plots: a colour and a shape for a method, dashes for its variants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Okabe and Ito's colours, which colour-blind readers can tell apart, less those that are lost on white or on black.
VERMILION, BLUE, ORANGE, GREEN = "#d55e00", "#0072b2", "#e69f00", "#009e73"
PURPLE, SKY, OLIVE, GREY = "#cc79a7", "#56b4e9", "#8f8f1f", "#7f7f7f"
RIVALS_COLOURS = (GREEN, ORANGE, PURPLE, SKY, OLIVE, GREY)  # ours have the two others to themselves
DASHES = ("solid", "dashed", "dotted", "dashdot")
SHAPES = ("circle", "square", "up", "diamond", "down", "plus", "cross", "star")

METHODS = {
    # ours
    "GaussianVoting": (VERMILION, "circle"),
    "GaussianVoting, careful": (VERMILION, "star"),
    "CandidatesVoting": (BLUE, "square"),
    "Baseline + EA + CS(w)": (BLUE, "square"),  # which is CandidatesVoting
    "Baseline + CS(w)": (SKY, "square"),
    "Baseline + EA + CS(w/o)": (ORANGE, "diamond"),
    "Baseline + EA": (GREEN, "up"),
    "Baseline": (GREY, "down"),
    "our defaults": (BLUE, "square"),
    "to the letter": (ORANGE, "diamond"),
    # on frozen features
    "NCM": (SKY, "circle"),
    "SLDA": (GREEN, "square"),
    "RLS": (OLIVE, "up"),
    "FeCAM": (ORANGE, "diamond"),
    "RanPAC": (PURPLE, "plus"),
    "SRDA": (SKY, "star"),
    "KLDA": (PURPLE, "circle"),
    "RanDumb": (OLIVE, "star"),
    "F-OAL": (ORANGE, "up"),
    "kNN": (ORANGE, "square"),
    "Feature replay": (GREY, "diamond"),
    # those that train a network
    "Fine-tuning": (GREY, "cross"),
    "A-GEM": (GREY, "down"),
    "ER": (GREEN, "up"),
    "MIR": (PURPLE, "diamond"),
    "GSS": (OLIVE, "plus"),
    "ASER": (SKY, "down"),
    "GDUMB": (ORANGE, "circle"),
    "LwF": (GREY, "up"),
    "iCaRL": (GREEN, "circle"),
    "EEIL": (ORANGE, "star"),
    "BiC": (PURPLE, "square"),
    "WA": (SKY, "diamond"),
    "CN": (GREY, "plus"),
    "CN + Exp": (OLIVE, "circle"),
    "KD": (PURPLE, "cross"),
    "Upper bound: linear, on all features": (GREY, "star"),
    "Upper bound: all images at once": (GREY, "star"),
}
# What comes after a method's name in the labels of its variants, and how its lines are drawn: the last counts.
VARIANTS = {
    "to the letter": "dotted",
    "short": "dashed",
    "offline": "dashdot",
    "online": "solid",
    "authors' decay": "dotted",
    "without clipping": "dotted",
    "not centred": "dashdot",
    "3 pairs": "dotted",
    "no limit": "solid",
    "3 MB": "solid",
    "1000 random features": "solid",
    "2000 random features": "solid",
    "5000 random features": "solid",
    "5 draws of 5000 random features": "solid",
    "two stages": "dotted",
    "beta 0.5": "dotted",
    "pilot": "solid",
}
OURS = ("CandidatesVoting", "GaussianVoting")
# Beside the paper's figures: the colours of methods that the paper has and of others, and the variants that are shown.
COMPARED = {"papers": BLUE, "others": VERMILION}
BESIDE = {"": "circle", "to the letter": "up", "short": "square"}
FILLED = ("online", "offline", "pilot", "short")  # variants whose shapes are not hollow


@dataclass(frozen=True)
class Appearance:
    """Of a method's points and lines; a hollow shape is a variant's."""

    colour: str
    shape: str
    dashes: str = "solid"
    hollow: bool = False


def appearances(labels: Iterable[str]) -> dict[str, Appearance]:
    """An appearance for each label: a known method's own, in every plot; others get what no known method has, in turn.

    >>> appearances(["GSS", "GSS, to the letter"])["GSS, to the letter"]
    Appearance(colour='#8f8f1f', shape='plus', dashes='dotted', hollow=True)
    """
    others: dict[str, Appearance] = {}
    made = {}
    for label in dict.fromkeys(labels):
        method, variants = split(label)
        own = Appearance(*METHODS[method]) if method in METHODS else others.setdefault(method, _free(len(others)))
        dashes = VARIANTS[variants[-1]] if variants else own.dashes
        made[label] = Appearance(own.colour, own.shape, dashes, hollow=any(each not in FILLED for each in variants))
    return made


def split(label: str) -> tuple[str, tuple[str, ...]]:
    """A method, and which variant of it.

    >>> split("LwF, authors' decay, short"), split("to the letter, pilot")
    (('LwF', ("authors' decay", 'short')), ('to the letter', ('pilot',)))
    """
    first, *parts = label.split(", ")
    variants = tuple(part for part in parts if part in VARIANTS)
    return ", ".join([first, *(part for part in parts if part not in VARIANTS)]), variants


def _free(number: int) -> Appearance:
    """What no known method has: colours in turn, with each the shapes that are left, and then dashes."""
    turn, place = divmod(number, len(RIVALS_COLOURS))
    colour = RIVALS_COLOURS[place]
    left = [shape for shape in SHAPES if (colour, shape) not in METHODS.values()]
    again, place = divmod(turn, len(left))
    return Appearance(colour, left[place], DASHES[again % len(DASHES)])
