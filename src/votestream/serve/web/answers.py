"""What the engine says, as JSON."""

from __future__ import annotations

from typing import Any

from votestream.serve.messages import Answer, Answers, Guess, Lesson, Problem, Taught


def taught(outcome: Taught) -> dict[str, Any]:
    """What one request taught: the last lesson, and all of them."""
    return {
        **_lesson(outcome.lessons[-1]),
        "lessons": [{**_lesson(lesson), "file": lesson.file} for lesson in outcome.lessons],
        "problems": problems(outcome.problems),
    }


def told(outcome: Answers, single: bool) -> dict[str, Any]:
    """The answer to one image, or those to several."""
    if single:
        return answer(outcome.answers[0])
    return {
        "lesson": max(one.lesson for one in outcome.answers),
        "answers": [{**answer(one), "file": one.file} for one in outcome.answers],
        "problems": problems(outcome.problems),
    }


def answer(one: Answer) -> dict[str, Any]:
    vote = None
    if one.vote is not None:
        tasks = [
            {
                "task": candidate.task,
                "candidate": candidate.candidate,
                "within": candidate.within,
                "prior": candidate.prior,
                "score": candidate.score,
            }
            for candidate in one.vote
        ]
        vote = {"tasks": tasks, "winner_task": one.winner_task}
    return {
        "lesson": one.lesson,
        "label": one.label,
        "confidence": one.confidence,
        "unknown_score": one.unknown_score,
        "unknown": one.unknown,
        "probabilities": [{"label": label, "probability": p} for label, p in one.probabilities],
        "vote": vote,
        "words": one.words,
    }


def problems(found: list[Problem]) -> list[dict[str, str]]:
    return [{"file": one.file, "problem": one.problem} for one in found]


def _lesson(lesson: Lesson) -> dict[str, Any]:
    return {
        "lesson": lesson.lesson,
        "label": lesson.label,
        "new_class": lesson.new_class,
        "similar": lesson.similar,
        "was": _guess(lesson.was),
    }


def _guess(guess: Guess | None) -> dict[str, Any] | None:
    return None if guess is None else {"label": guess.label, "confidence": guess.confidence}
