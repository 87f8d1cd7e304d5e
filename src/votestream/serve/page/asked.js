// Images that were dropped without a class: predicted, listed with the unsure ones first, corrected with one tap.

import { $, Emitter, arrange, counted, el, percent } from "./dom.js";
import { thumbs } from "./pictures.js";

const MOST_SHOWN = 120;
const ASKED_AGAIN = 30; // of the unsurest, when something was learned
let numbers = 0;

export class Asked extends Emitter {
  #items = [];
  #selected = null;
  #chosen = false; // by hand; else the unsurest image is in view
  #queue;
  #classes;
  #takeBack;

  /**
   * `classes()` gives the classes the model has now, `takeBack(lesson)` undoes one. Fires "select" with the item in
   * view, or null.
   */
  constructor(queue, classes, takeBack) {
    super();
    this.#queue = queue;
    this.#classes = classes;
    this.#takeBack = takeBack;
  }

  /** How many images are neither taught nor about to be. */
  get open() {
    return this.#open().length;
  }

  add(files) {
    const items = files.map((file) => ({ file, id: `asked ${++numbers}`, answer: null, taught: null, pending: false }));
    this.#items.push(...items);
    if (!this.#selected || this.#selected.taught) this.select(items[0]);
    for (const item of items.slice(0, MOST_SHOWN)) thumbs.make(item.id, item.file).then(() => this.render());
    this.predict(items);
    this.render();
  }

  /** With an empty model there is nothing to ask: the items wait for a name. */
  predict(items, quiet = false) {
    if (!this.#classes().length || !items.length) return;
    this.#queue.predict(items, quiet, (item, answer) => {
      if (!this.#items.includes(item)) return;
      item.answer = answer;
      item.useless = !answer;
      const first = this.#chosen ? this.#selected : this.#sorted()[0];
      if (first !== this.#selected || first === item) this.select(first, this.#chosen);
      else this.render();
    });
  }

  /** Teach the image in view; with an empty model, all that are there. One taught before is taken back first. */
  async teach(label) {
    const before = this.#selected.taught;
    if (before?.label === label) return;
    if (before) await this.#takeBack(before);
    const items = this.#classes().length ? [this.#selected] : this.#open();
    for (const item of items) item.pending = true;
    this.#queue.learn(label, items, (item, lesson) => {
      item.pending = false;
      item.taught = lesson;
      item.useless = !lesson;
      if (lesson) thumbs.make(lesson.lesson, item.file);
      this.render();
    });
    const rest = this.#sorted().filter(isOpen);
    if (rest.length) this.select(rest[0]);
    this.render();
  }

  /** Answers grow old when something was learned: the unsurest images are asked again, and the one in view. */
  refresh() {
    const open = this.#sorted().filter(isOpen).slice(0, ASKED_AGAIN);
    const seen = this.#selected;
    this.predict(!seen || seen.useless || open.includes(seen) ? open : [seen, ...open], true);
  }

  /** A lesson was taken back: its image is open again. */
  undone(lesson) {
    for (const item of this.#items) if (item.taught?.lesson === lesson) item.taught = null;
    this.render();
  }

  select(item, chosen = false) {
    this.#selected = item;
    this.#chosen = chosen;
    this.fire("select", item);
    this.render();
  }

  clear() {
    for (const item of this.#items) thumbs.drop(item.id);
    this.#items = [];
    this.select(null);
  }

  render() {
    $("asked").hidden = this.#items.length < 2;
    $("asked-title").textContent = `${counted(this.#items.length, "image")}, unsure ones first`;
    const shown = this.#sorted().slice(0, MOST_SHOWN).map((item) => this.#tile(item));
    const left = this.#items.length - MOST_SHOWN;
    if (left > 0) shown.push(el("li", { class: "muted small" }, `and ${left.toLocaleString("en")} more`));
    arrange($("asked-list"), shown);
  }

  #tile(item) {
    item.tile ??= newTile(() => this.select(item, true));
    const { node, button, image, blank, words, about } = item.tile;
    const url = thumbs.get(item.id);
    image.hidden = !url;
    blank.hidden = Boolean(url);
    if (url && image.src !== url) image.src = url;
    [words.textContent, about.textContent] = said(item);
    button.classList.toggle("taught", Boolean(item.taught));
    button.setAttribute("aria-pressed", String(item === this.#selected));
    button.setAttribute("aria-label", `${item.file.name}: ${words.textContent} ${about.textContent}`);
    return node;
  }

  #open() {
    return this.#items.filter(isOpen);
  }

  #sorted() {
    return this.#items.toSorted((a, b) => rank(a) - rank(b));
  }
}

function newTile(onclick) {
  const image = el("img", { alt: "", hidden: true });
  const blank = el("span", { class: "blank" });
  const words = el("span", { class: "words", dir: "auto" });
  const about = el("span", { class: "muted small" });
  const button = el("button", { type: "button", class: "tile", onclick }, image, blank, words, about);
  return { node: el("li", {}, button), button, image, blank, words, about };
}

const isOpen = (item) => !item.taught && !item.pending && !item.useless;

/** Unknown first, then by confidence; what was taught goes to the end. */
function rank(item) {
  if (!isOpen(item)) return 3;
  if (!item.answer) return 2;
  return item.answer.unknown ? -1 : item.answer.confidence;
}

function said(item) {
  if (item.taught) return [String(item.taught.label), "learned"];
  if (item.useless) return ["not usable", ""];
  if (!item.answer) return ["…", ""];
  if (item.answer.unknown) return ["unknown", ""];
  return [String(item.answer.label), percent(item.answer.confidence)];
}
