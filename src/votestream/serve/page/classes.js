// The classes: what each one knows, its bar in the latest answer, and its button to teach it.

import { cannotKnow } from "./certainty.js";
import { $, Emitter, arrange, chance, counted, el, percent, tell } from "./dom.js";
import { makeHoldable } from "./holding.js";
import { photos } from "./photos.js";

const STEADY = 12; // up to so many classes keep their order; of more, the likeliest come first
const MOST_ROWS = 200;
const REORDER_EVERY = 1000;
const STRIP = 3; // photos of a class in its row

export class Classes extends Emitter {
  #rows = new Map();
  #model = null;
  #shares = new Map();
  #order = [];
  #orderedAt = 0;
  #mode = "idle";
  #enabled = false;
  #selected = [];
  #unknown = unknownRow();

  /** Fires "press", "release", "tap" and "photos" with a label, "rename" with {label, to}, "menu" with {label, button}. */
  constructor() {
    super();
    $("search").oninput = () => this.#arrange(true);
  }

  setModel(model) {
    this.#model = model;
    const labels = new Set(model.classes.map((each) => each.label));
    for (const [label, row] of this.#rows) {
      if (labels.has(label)) continue;
      row.node.remove();
      this.#rows.delete(label);
    }
    for (const each of model.classes) {
      if (!this.#rows.has(each.label)) this.#rows.set(each.label, this.#newRow(each.label));
      const row = this.#rows.get(each.label);
      row.about.textContent = about(each);
    }
    this.showPhotos();
    $("search-row").hidden = model.classes.length <= STEADY;
    if ($("search-row").hidden) $("search").value = "";
    $("known-names").replaceChildren(...model.classes.map((each) => el("option", { value: String(each.label) })));
    this.#arrange(labels.size !== this.#order.length || !model.classes.every((each) => this.#order.includes(each.label)));
    this.setMode(this.#mode, this.#enabled, this.#selected);
  }

  /** The newest photos of each class, which lead to all of them. */
  showPhotos() {
    for (const [label, { photos: button }] of this.#rows) {
      const urls = photos.of(label).slice(0, STRIP).map((photo) => photos.url(photo.lesson));
      button.hidden = !urls.length;
      const shown = [...button.children].map((image) => image.src);
      if (String(shown) === String(urls)) continue;
      button.replaceChildren(...urls.map((src) => el("img", { src, alt: "" })));
    }
  }

  /** "idle", "camera" or "picture" decides what the buttons do and say; `selected` are the images they would teach. */
  setMode(mode, enabled, selected) {
    [this.#mode, this.#enabled, this.#selected] = [mode, enabled, selected];
    const n = selected.length;
    const moves = selected.some((item) => item.taught);
    const picture = moves ? "Move here" : n > 1 ? `Learn ${n.toLocaleString("en")}` : "It is this";
    const words = { idle: "Add images", camera: "Hold to teach", picture }[mode];
    const aloud = mode === "picture" && n > 1 ? `${words}${moves ? ", " : " "}${moves ? counted(n, "image") : "images"}` : words;
    for (const [label, { teach }] of this.#rows) {
      if (teach.textContent !== words) teach.textContent = words;
      teach.setAttribute("aria-label", `${aloud}: ${label}`);
      teach.disabled = !enabled;
    }
  }

  /** `live`: more will come at once, so the order of many classes changes only where nobody points at it. */
  setAnswer(answer, live = false) {
    this.#shares = new Map(answer?.probabilities.map((each) => [each.label, each.probability]) ?? []);
    const winner = answer && !answer.unknown ? answer.label : null;
    const hidden = answer && cannotKnow(answer, this.#model.classes);
    for (const [label, row] of this.#rows) {
      const share = this.#shares.get(label) ?? 0;
      row.fill.style.transform = `scaleX(${hidden ? 0 : share})`;
      row.share.textContent = answer && !hidden && share >= 0.005 ? chance(share) : "";
      row.node.classList.toggle("winner", label === winner);
    }
    this.#showUnknown(answer);
    this.#arrange(!live);
  }

  /** In words: it is no share, so it must not look like one that adds up with those of the classes. */
  #showUnknown(answer) {
    const { node, words } = this.#unknown;
    const score = answer?.unknown_score ?? null;
    node.hidden = score === null || !this.#rows.size;
    if (node.hidden) return;
    const unusual = `less usual than ${percent(score)} of the known images`;
    words.textContent = answer.unknown ? `Yes: ${unusual}` : score < 0.5 ? "No: as usual as the known images" : `No: ${unusual}`;
    node.classList.toggle("winner", Boolean(answer.unknown));
    node.title = `An image less usual than ${percent(this.#model.unknown_threshold)} of the known images is called unknown.`;
  }

  /** How many frames were taught since a class is held. */
  setHeld(held) {
    for (const [label, row] of this.#rows) {
      const mine = held?.label === label;
      row.node.classList.toggle("held", mine);
      tell(row.added, mine && held.taught ? `+${held.taught}` : "");
    }
  }

  /** The class of the row with that number in view, or undefined. */
  numbered(number) {
    return this.#order[number - 1];
  }

  startRename(label) {
    if (!this.#enabled) return;
    const row = this.#rows.get(label);
    const input = el("input", { type: "text", "aria-label": `New name of ${label}`, maxlength: "200", dir: "auto" });
    input.value = String(label);
    row.name.hidden = true;
    row.name.after(input);
    input.select();
    input.focus();
    let over = false;
    const end = (save) => {
      if (over) return;
      over = true;
      const to = input.value.trim();
      input.remove();
      row.name.hidden = false;
      row.more.focus();
      if (save && to && to !== String(label)) this.fire("rename", { label, to });
    };
    input.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); // or Enter would press the button that has the focus next
      end(event.key === "Enter");
    };
    input.onblur = () => end(false);
  }

  /** The rows that are to be seen, in order. An order people point at does not move under their hands. */
  #arrange(now) {
    const list = $("classes");
    if (!this.#model) return;
    const busy = list.matches(":hover") || list.querySelector(":focus-visible, .held");
    const labels = this.#model.classes.map((each) => each.label);
    const many = labels.length > STEADY;
    if (!now && (busy || Date.now() - this.#orderedAt < REORDER_EVERY)) return;
    this.#orderedAt = Date.now();
    const wanted = $("search").value.trim().toLowerCase();
    const found = wanted ? labels.filter((label) => String(label).toLowerCase().includes(wanted)) : labels;
    const share = (label) => this.#shares.get(label) ?? 0;
    this.#order = many ? found.toSorted((a, b) => share(b) - share(a)) : found;
    const shown = this.#order.slice(0, MOST_ROWS);
    shown.forEach((label, at) => (this.#rows.get(label).key.textContent = at < 9 ? String(at + 1) : ""));
    arrange(list, [...shown.map((label) => this.#rows.get(label).node), this.#unknown.node]);
    const left = this.#order.length - shown.length;
    const none = wanted && !found.length ? "No class is called that. Add it below." : "";
    tell($("more-classes"), left > 0 ? `and ${counted(left, "class", "classes")} more: find them by name` : none);
  }

  #newRow(label) {
    const teach = this.#teachButton(label);
    const key = el("kbd", { "aria-hidden": "true" });
    const name = el("span", { class: "name", dir: "auto", title: String(label) }, String(label));
    const about = el("span", { class: "about muted small" });
    const added = el("span", { class: "added", hidden: true });
    const fill = el("span", { class: "fill" });
    const share = el("span", { class: "share" });
    const more = el(
      "button",
      { type: "button", class: "more quiet", "aria-label": `More for ${label}`, "aria-haspopup": "menu" },
      "⋯",
    );
    more.onclick = () => this.fire("menu", { label, button: more });
    const photos = el("button", { type: "button", class: "photos", "aria-label": `Photos of ${label}`, hidden: true });
    photos.onclick = () => this.fire("photos", label);
    const text = el("div", { class: "text" }, el("div", { class: "title" }, name, added), about);
    const names = el("div", { class: "names" }, text, photos);
    name.ondblclick = () => this.startRename(label);
    const node = el("li", { class: "class" }, key, names, el("div", { class: "bar" }, fill), share, teach, more);
    node.onkeydown = (event) => {
      if (event.key === "F2") this.startRename(label);
    };
    node.dropLabel = label;
    return { node, key, name, about, added, fill, share, teach, more, photos };
  }

  #teachButton(label) {
    const button = el("button", { type: "button", class: "teach" });
    makeHoldable(button, {
      holds: () => this.#mode === "camera" && this.#enabled,
      press: () => this.fire("press", label),
      release: () => this.fire("release", label),
      tap: () => this.fire("tap", label),
    });
    return button;
  }
}

/** How much a class has been taught, and how it did when it was tested before learning. */
function about({ count, tested, right }) {
  const images = count === null ? "" : counted(count, "image");
  if (!tested) return count !== null && count < 3 ? `${images}: add more` : images;
  return `${images}, ${right}/${tested} right`;
}

function unknownRow() {
  const words = el("span", { class: "unknown-words small" });
  const node = el("li", { class: "class unknown", hidden: true }, el("kbd"), el("span", { class: "name" }, "unknown?"), words);
  return { node, words };
}
