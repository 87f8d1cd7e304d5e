// The last lessons, newest first, each with what the model thought before and a way to take it back.

import { guessed } from "./certainty.js";
import { $, arrange, el } from "./dom.js";
import { photos } from "./photos.js";

const tiles = new Map();

export function showLessons(model, enabled, undo) {
  const recent = model.recent.filter((each) => each.kind !== "undo");
  $("lessons").hidden = !recent.length;
  const nodes = recent.map((each) => {
    if (!tiles.has(each.lesson)) tiles.set(each.lesson, newTile(each, undo));
    const tile = tiles.get(each.lesson);
    const url = photos.url(each.lesson);
    tile.image.hidden = !url;
    if (url && tile.image.src !== url) tile.image.src = url;
    tile.node.classList.toggle("undone", each.undone);
    tile.words.textContent = each.undone ? "taken back" : before(each);
    tile.undo.hidden = each.undone;
    tile.undo.disabled = !enabled;
    return tile.node;
  });
  arrange($("lessons-list"), nodes);
  const there = new Set(recent.map((each) => each.lesson));
  for (const lesson of tiles.keys()) if (!there.has(lesson)) tiles.delete(lesson);
}

function newTile(each, undo) {
  const image = el("img", { alt: "", hidden: true });
  const words = el("span", { class: "muted small" });
  const button = el(
    "button",
    { type: "button", class: "quiet", "aria-label": `Undo lesson ${each.lesson}: ${each.label}`, onclick: () => undo(each) },
    "Undo",
  );
  const text = el("span", { class: "text" }, el("span", { class: "words", dir: "auto" }, title(each)), words);
  return { node: el("li", { class: "lesson" }, image, text, button), image, words, undo: button };
}

function title(each) {
  if (each.kind === "rename") return `${each.label} → ${each.to}`;
  return String(each.label);
}

/** What the model thought before it learned this. */
function before({ kind, label, was }) {
  if (kind !== "learn") return kind === "rename" ? "renamed" : "forgotten";
  if (!was) return "first images";
  return `${was.label === label ? "right" : "was"}: ${guessed(was)}`;
}
