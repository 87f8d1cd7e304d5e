"""The page as a person uses it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

# A drop or paste of files from outside cannot be made with a mouse that lives in the browser; what the browser would
# tell the page about one can.
BRING = """([node, events, files]) => {
  const transfer = new DataTransfer();
  for (const { name, type, data } of files) {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes], name, { type }));
  }
  for (const name of events) {
    const more = { bubbles: true, cancelable: true };
    node.dispatchEvent(name === "paste" ? new ClipboardEvent(name, { clipboardData: transfer, ...more })
                                        : new DragEvent(name, { dataTransfer: transfer, ...more }));
  }
}"""
# The kind that the camera shows: the strongest of red, green and blue of a frame.
SEEN = """() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const context = canvas.getContext("2d");
  context.drawImage(document.getElementById("video"), 0, 0, 8, 8);
  const sums = [0, 0, 0];
  context.getImageData(0, 0, 8, 8).data.forEach((value, at) => at % 4 < 3 && (sums[at % 4] += value));
  return ["brick", "leaf", "water"][sums.indexOf(Math.max(...sums))];
}"""


class ThePage:
    def __init__(self, page: Page) -> None:
        self.page = page

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def row(self, label: str) -> Locator:
        """The row of a class."""
        name = self.page.locator(".name").get_by_text(label, exact=True)
        return self.page.locator("li.class:not(.unknown)").filter(has=name)

    def drop(self, place: str | Locator, files: list[dict[str, str]]) -> None:
        self._bring(place, ["dragover", "drop"], files)

    def paste(self, place: str | Locator, files: list[dict[str, str]]) -> None:
        self._bring(place, ["paste"], files)

    def _bring(self, place: str | Locator, events: list[str], files: list[dict[str, str]]) -> None:
        locator = self.page.locator(place) if isinstance(place, str) else place
        self.page.evaluate(BRING, [locator.element_handle(), events, files])

    def drop_folder(self, folder: Path, x: int = 300, y: int = 300) -> None:
        """A real folder, as the system hands it to the browser."""
        session = self.page.context.new_cdp_session(self.page)
        data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            session.send("Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": data})

    def teach(self, label: str, files: list[dict[str, str]]) -> None:
        """Drop files on a new class of that name, and wait until they are learned."""
        before = self.count(label)
        self.page.fill("#new-name", label)
        self.drop("#new-class", files)
        self.expect_count(label, before + len(files))

    def count(self, label: str) -> int:
        row = self.row(label)
        return int(row.locator(".about").inner_text().split()[0]) if row.count() else 0

    def expect_count(self, label: str, n: int) -> None:
        expect(self.row(label).locator(".about")).to_contain_text(f"{n} image{'' if n == 1 else 's'}", timeout=20_000)

    def expect_at_least(self, label: str, n: int) -> None:
        end = time.monotonic() + 20
        while self.count(label) < n:
            assert time.monotonic() < end, f"{label} never had {n} images"
            self.page.wait_for_timeout(20)

    def wait_until(self, true: str) -> None:
        """Until an expression is true. Playwright's own way needs `eval`, which the page's policy forbids."""
        end = time.monotonic() + 20
        while not self.page.evaluate(true):
            assert time.monotonic() < end, f"never came true: {true}"
            self.page.wait_for_timeout(20)

    def start_camera(self) -> None:
        self.page.click("#camera-button")
        self.wait_until("document.getElementById('video').videoWidth > 0")

    def wait_until_seen(self, kind: str) -> None:
        """Until the camera begins to show a kind."""
        self.wait_until(f"({SEEN})() !== '{kind}'")
        self.wait_until(f"({SEEN})() === '{kind}'")

    def menu(self, label: str, entry: str) -> None:
        self.row(label).locator(".more").click()
        self.page.click(f"#menu-{entry}")
