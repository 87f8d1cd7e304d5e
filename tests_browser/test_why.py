"""Why?: where in the image, which photos are alike, what the class is mixed up with; the vote only in the details."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import votestream as vs
from pictures import picture, uploads
from served import BACKBONE, Model, Served

# Whether the picture has places in both colours: greener and redder than the image itself could be by chance.
COLOURS = """() => {
  const canvas = document.getElementById("why-map");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let [speaking, against] = [0, 0];
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 1] > data[at] + 60) speaking += 1;
    if (data[at] > data[at + 2] + 60) against += 1;
  }
  return [speaking > 100, against > 100];
}"""


@pytest.fixture
def why(page):
    """Photos of both classes were taught on the page; an image is in view and Why? is open."""
    for kind in ("brick", "leaf"):
        page.drop(page.row(kind), uploads(kind, 4, start=20))
        page.expect_count(kind, 10)
    expect(page.row("leaf").locator(".photos img")).to_have_count(3)
    page.drop("#stage", uploads("leaf", 2, start=40))
    expect(page.locator("#batch-list li").filter(has_text="…")).to_have_count(0)
    page.locator("#why > summary").click()
    expect(page.locator("#why-words")).to_contain_text("What speaks most")
    return page


def test_why_shows_where_in_the_image_it_is_decided(why):
    map = why.get_by_role("img", name="The image with the places that speak for leaf and for brick")
    expect(map).to_be_visible()
    expect(why.locator("#why-words")).to_contain_text("What speaks most for leaf is")
    expect(why.locator("#why-legend")).to_contain_text("for leaf")
    assert why.evaluate(COLOURS) == [True, True]


def test_why_shows_the_photos_it_learned_that_are_most_alike(why):
    nearest = why.locator("#why-nearest-list li")
    expect(nearest).to_have_count(4)
    expect(nearest.first).to_have_text("leaf")
    expect(why.get_by_role("heading", name="Most alike of 8 photos that it learned")).to_be_visible()


def test_why_names_what_the_class_was_mixed_up_with(page):
    page.drop(page.row("brick"), uploads("leaf", 2, start=60))
    page.expect_count("brick", 8)
    page.drop("#stage", uploads("leaf", 1, start=80))
    page.locator("#why > summary").click()
    expect(page.locator("#why-confused")).to_contain_text("brick was taken for leaf")


def test_why_follows_the_image_in_view(why):
    asked = []
    why.on("request", lambda request: asked.append(request.url) if "/explain" in request.url else None)
    tiles = why.locator("#batch-list li")
    tiles.nth(1).click()
    why.wait_for_timeout(300)
    tiles.nth(1).click(modifiers=["ControlOrMeta"])
    why.wait_for_timeout(300)
    assert len(asked) == 1


def test_a_model_of_one_class_says_that_there_is_nothing_to_compare(empty):
    empty.teach("leaf", uploads("leaf", 3))
    empty.drop("#stage", uploads("leaf", 1, start=10))
    empty.locator("#why > summary").click()
    expect(empty.locator("#why-words")).to_have_text("leaf is the only class: there is nothing to compare it with.")
    expect(empty.locator("#why-vote")).to_be_hidden()


def test_tasks_and_nominations_are_in_the_details_of_a_learner_that_votes(tmp_path, open_page):
    learner = vs.ImageClassifier(BACKBONE, vs.GaussianVoting(track=True))
    for task, kinds in enumerate((("brick", "leaf"), ("water",))):
        for kind in kinds:
            learner.partial_fit([picture(kind, number) for number in range(6)], [kind] * 6, task=task)
    learner.save(tmp_path / "tasks.safetensors")
    served = Served(tmp_path / "tasks.safetensors").ready()
    page = open_page(served.address, expected=("net::ERR",))
    page.drop("#stage", uploads("leaf", 1, start=10))
    page.locator("#why > summary").click()
    expect(page.locator("#why-words")).to_contain_text("What speaks most")
    assert "nominates" not in page.locator("#answer").inner_text()
    page.locator("#why-vote summary").click()
    expect(page.get_by_role("img", name="The vote.")).to_be_visible()
    assert Model(served).counts()["water"] == 6
    served.close()
