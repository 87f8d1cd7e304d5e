"""The documentation of the routes: each can be tried."""

from __future__ import annotations

from playwright.sync_api import expect


def test_a_route_is_tried_from_the_documentation(model, open_page):
    address = "/".join(model.page.split("/")[:3])
    page = open_page(f"{address}/docs", ready="details").page
    route = page.locator("details").filter(has_text="A description of the model").last  # /v1/models/{name}/model
    route.locator("summary").click()
    route.locator("input[name=name]").fill(model.page.rpartition("=")[2])
    route.get_by_role("button", name="Send").click()
    expect(route.locator("pre")).to_contain_text("200")
    expect(route.locator("pre")).to_contain_text('"label": "brick"')
