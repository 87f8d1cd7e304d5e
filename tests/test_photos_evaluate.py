"""`votestream evaluate`: labelled photos that are not learned."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import votestream as vs
from painted import COLOURS, paint, put, run
from votestream.photos.evaluation import EvaluatedPhoto, Evaluation
from votestream.photos.evaluation_page import ABOUT_THUMBNAILS, page


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A model of three colours, and photos to judge it by: three in a wrong class, four of an unknown one."""
    folder = tmp_path_factory.mktemp("shop")
    for label in ("red", "green", "blue"):
        paint(folder / "photos", label, 10)
    paint(folder / "test", "red", 8, start=100)
    paint(folder / "test", "green", 8, start=100)
    for number in range(3):
        put(folder / "test" / "green" / f"wrong <{number}>.png", np.full((300, 200, 3), COLOURS["red"], np.uint8))
    paint(folder / "test", "grey", 4)
    run("learn", folder / "photos", "--model", folder / "m", "--backbone", "pixels")
    return folder


def numbers(shop):
    return json.loads(run("evaluate", shop / "m", shop / "test", "--json").stdout)


def test_accuracy_confusions_and_the_worst_photos_are_told_and_nothing_is_learned(shop):
    before = {path: path.read_bytes() for path in shop.rglob("*") if path.is_file()}
    result = run("evaluate", shop / "m", shop / "test")
    assert result.exit_code == 1  # something was left out
    assert ": 84.2 % (62.4 to 94.5) of 19 photos right." in result.stdout
    assert "Most frequent confusions: green as red 3." in result.stdout
    assert "wrong <0>.png: red 100 %, is green" in result.stdout
    assert "Classes without a photo here: blue." in result.stdout
    assert result.stderr == "Left out, because the model does not have these classes: grey (4).\n"
    assert {path: path.read_bytes() for path in shop.rglob("*") if path.is_file()} == before


def test_json_has_every_number(shop):
    made = numbers(shop)
    assert (made["right"], made["photos"], made["accuracy"]) == (16, 19, pytest.approx(16 / 19, abs=1e-6))
    assert (made["low"], made["high"]) == pytest.approx((0.624337, 0.944829), abs=1e-4)
    by_class = {row["label"]: (row["right"], row["photos"]) for row in made["classes"]}
    assert by_class == {"green": (8, 11), "red": (8, 8)}
    assert made["confusions"] == [{"label": "green", "predicted": "red", "photos": 3}]
    assert [Path(row["path"]).name for row in made["worst"]] == [f"wrong <{n}>.png" for n in range(3)]
    assert (made["not_known"], made["not_tested"]) == ({"grey": 4}, ["blue"])


def test_answers_are_those_of_predict(shop, tmp_path):
    run("evaluate", shop / "m", shop / "test", "--csv", tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    files = [Path(row["file"]) for row in rows]
    assert len(files) == 19
    model = vs.load(shop / "m")
    assert [row["predicted"] for row in rows] == model.predict(files).tolist()
    assert [row["right"] for row in rows] == ["no" if path.name.startswith("wrong") else "yes" for path in files]
    assert [float(row["confidence"]) for row in rows] == pytest.approx(model.predict_proba(files).max(1), abs=1e-5)


def test_the_worst_are_the_most_confident_mistakes_and_classes_stand_by_accuracy():
    photos = [EvaluatedPhoto(Path(str(n)), "a", "b" if n % 2 else "a", n / 100) for n in range(100)]
    made = Evaluation([*photos, EvaluatedPhoto(Path("x"), "b", "b", 1.0)])
    assert [photo.confidence for photo in made.worst] == [n / 100 for n in range(99, 51, -2)]
    assert list(made.by_class) == ["a", "b"]


def test_the_page_stands_alone_with_a_matrix_and_small_upright_thumbnails(shop, tmp_path):
    run("evaluate", shop / "m", shop / "test", "--html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert ABOUT_THUMBNAILS in text
    assert "Only that page stores the thumbnails." in " ".join(
        run("evaluate", "--help").stdout.replace("│", " ").split()
    )
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert "<script" not in text
    assert "wrong &lt;0&gt;.png" in text
    assert "grey (4)" in text
    images = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', text)
    assert len(images) == 3
    image = Image.open(io.BytesIO(base64.b64decode(images[0])))
    assert image.size == (128, 192)
    row = re.search(r'<th scope="row">green</th>(.*?)</tr>', text)[1]
    assert re.findall(r">(\d*)</td>", row) == ["8", "3"]


def test_names_in_the_page_are_text_and_not_html(tmp_path):
    made = Evaluation([EvaluatedPhoto(tmp_path / "none.png", "<script>", '"><b>', 0.5)])
    text = page(made, Path("<m>"), Path("<f>"), 1000)
    assert "<script>" not in text
    assert "&quot;&gt;&lt;b&gt;" in text


def test_of_a_divided_folder_the_test_part_is_evaluated(shop, tmp_path):
    paint(tmp_path / "train", "red", 3)
    paint(tmp_path / "test", "red", 2)
    result = run("evaluate", shop / "m", tmp_path)
    assert "note: " in result.stderr
    assert "is divided into parts: test is evaluated." in result.stderr
    assert "of 2 photos right" in result.stdout


def test_unreadable_photos_are_named_and_the_rest_is_judged(shop, tmp_path):
    paint(tmp_path, "red", 2)
    (tmp_path / "red" / "text.jpg").write_text("text")
    result = run("evaluate", shop / "m", tmp_path)
    assert result.exit_code == 1
    assert "Skipped: " in result.stderr
    assert "of 2 photos right" in result.stdout


WRONG = {
    "no such folder": (lambda f: ["evaluate", f / "m", f / "none"], "There is no folder"),
    "no model": (lambda f: ["evaluate", f / "none", f / "test"], "no model file at"),
    "only photos": (lambda f: ["evaluate", f / "m", f / "test" / "red"], "no class folder"),
    "only unknown classes": (lambda f: ["evaluate", f / "m", f / "grey"], "has none of the classes grey, only blue"),
    "a level too high": (lambda f: ["evaluate", f / "m", f / "rounds"], "Perhaps you mean"),
    "nothing readable": (lambda f: ["evaluate", f / "m", f / "broken"], "No photo could be read"),
    "a table that is no .csv": (lambda f: ["evaluate", f / "m", f / "test", "--csv", "t.jpg"], "ends in .csv"),
    "a page that is no .html": (lambda f: ["evaluate", f / "m", f / "test", "--html", "p.jpg"], "ends in .html"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_evaluated_is_said_in_a_sentence(shop, case, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    paint(shop / "grey", "grey", 1)
    for part in ("round1", "round2"):
        for label in ("red", "green"):
            paint(shop / "rounds" / part, label, 1)
    (shop / "broken" / "red").mkdir(parents=True, exist_ok=True)
    (shop / "broken" / "red" / "1.jpg").write_text("text")
    arguments, sentence = WRONG[case]
    result = run(*arguments(shop))
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
