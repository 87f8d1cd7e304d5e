// Images that were dropped together: predicted, listed with the unsure ones first, selected, taught and corrected.

import { announce } from "./announce.js";
import { cannotKnow } from "./certainty.js";
import { $, Emitter, chance, counted } from "./dom.js";
import { Grid } from "./grid.js";
import { thumbs } from "./pictures.js";

const ASKED_AGAIN = 30; // of the unsurest, when something was learned
let numbers = 0;

export class Batch extends Emitter {
  #items = [];
  #order = [];
  #grid = new Grid($("batch-list"), (item) => this.#described(item));
  #waits = false;
  #byHand = false; // the person chose what is in view; else it is the unsurest image
  #queue;
  #classes;
  #takeBack;

  /**
   * `classes()` gives the classes the model has now, `takeBack(lesson)` undoes one and says whether it could. Fires
   * "select" with the item in view, or null, whenever that or what is selected changes.
   */
  constructor(queue, classes, takeBack) {
    super();
    this.#queue = queue;
    this.#classes = classes;
    this.#takeBack = takeBack;
    this.#grid.on("select", () => {
      this.#byHand = true;
      this.#changed();
    });
    this.#grid.on("remove", () => this.remove());
    $("batch-all").onclick = () => this.#selectOpen();
    $("batch-remove").onclick = () => this.remove();
  }

  /** What a class's button teaches now. */
  get selected() {
    return this.#order.filter((item) => this.#grid.selected.has(item) && !item.pending && !item.useless);
  }

  get size() {
    return this.#items.length;
  }

  /** New images are what is selected. A batch that is learned as a whole makes room for them. */
  add(files) {
    const items = files.map((file) => ({ file, id: `batch ${++numbers}`, answer: null, taught: null, pending: false }));
    if (!this.#items.some(isOpen)) this.#drop(this.#items);
    this.#items.push(...items);
    this.#byHand = false;
    this.#arrange(true);
    this.#grid.set(items);
    this.#changed();
    this.predict(items);
    announce(`${counted(items.length, "image")}, all selected`);
  }

  /** With an empty model there is nothing to ask: the items wait for a name. */
  predict(items, quiet = false) {
    if (!this.#classes().length || !items.length) return;
    this.#queue.predict(items, quiet, (item, answer) => {
      if (!this.#items.includes(item)) return;
      item.answer = answer ?? item.answer;
      item.useless = answer === null;
      this.#answered();
    });
  }

  /** Answers come several at a time, and are shown once. */
  #answered() {
    if (this.#waits) return;
    this.#waits = true;
    queueMicrotask(() => {
      this.#waits = false;
      this.#arrange();
      if (!this.#byHand) this.#grid.set([...this.#grid.selected], this.#unsurest() ?? this.#grid.current);
      this.#changed();
    });
  }

  /** Teach the selected images. Those of another class are moved: what was learned of them is taken back first. */
  async teach(label) {
    const chosen = this.selected.filter((item) => String(item.taught?.label) !== String(label));
    if (!chosen.length) return;
    for (const item of chosen) item.pending = true;
    this.#goOn(chosen);
    const movable = [];
    for (const item of chosen) {
      if (!item.taught || (await this.#takeBack(item.taught))) movable.push(item);
      else item.pending = false;
    }
    this.#queue.learn(label, movable, (item, lesson) => {
      item.pending = false;
      item.taught = lesson ?? null;
      item.useless = lesson === null;
      this.fire("taught", { item, lesson });
      this.#changed();
    });
  }

  /** After one image the next unsure one is selected; after several, nothing: what is left is another matter. */
  #goOn(chosen) {
    this.#byHand = false;
    const next = this.#unsurest();
    this.#arrange();
    this.#grid.set(chosen.length === 1 && next ? [next] : [], next ?? this.#grid.current);
    this.#changed();
  }

  /** Take the selected lessons back; where none of the images is learned, they leave the batch. */
  async remove() {
    const taught = this.selected.filter((item) => item.taught);
    if (!taught.length) {
      const selected = this.#items.filter((item) => this.#grid.selected.has(item) && !item.pending);
      this.#drop(selected);
      this.#arrange(true);
      const next = this.#unsurest() ?? this.#order[0];
      this.#grid.set([], next ?? null);
      if (selected.length) announce(`Removed ${counted(selected.length, "image")}`);
      return this.#changed();
    }
    for (const item of taught) await this.#takeBack(item.taught);
  }

  /** False where there is nothing to select. */
  selectAll() {
    if (this.#items.length) this.#grid.selectAll();
    return this.#items.length > 0;
  }

  #selectOpen() {
    const open = this.#order.filter(isOpen);
    if (!open.length || open.length === this.#order.length) return this.#grid.selectAll();
    this.#byHand = true;
    this.#grid.set(open);
    this.#changed();
  }

  /** Answers grow old when something was learned: the unsurest images are asked again, and the one in view. */
  refresh() {
    const open = this.#order.filter(isOpen).slice(0, ASKED_AGAIN);
    const seen = this.#grid.current;
    this.predict(!seen || seen.useless || open.includes(seen) ? open : [seen, ...open], true);
  }

  /** A lesson was taken back: its image is open again. */
  undone(lesson) {
    for (const item of this.#items) if (item.taught?.lesson === lesson) item.taught = null;
    if (this.#items.length) this.#changed();
  }

  clear() {
    this.#drop(this.#items);
    this.#arrange(true);
    this.#changed();
  }

  render() {
    const n = this.#items.length;
    $("batch").hidden = n < 2 && !this.#items.some((item) => item.taught);
    const asked = this.#items.some((item) => item.answer && isOpen(item));
    const selected = this.selected;
    const taught = selected.filter((item) => item.taught).length;
    $("batch-title").textContent = `${counted(n, "image")}${asked && n > 1 ? ", unsure ones first" : ""}`;
    $("batch-count").textContent = selected.length ? `${selected.length.toLocaleString("en")} selected` : "none selected";
    const open = this.#items.filter(isOpen).length;
    $("batch-all").textContent = open && open < n ? `Select ${open.toLocaleString("en")} not learned` : "Select all";
    $("batch-remove").textContent = taught ? `Take back ${taught.toLocaleString("en")}` : "Remove";
    $("batch-remove").disabled = !this.#grid.selected.size;
    this.#grid.show(this.#order);
    for (const item of this.#grid.shown) {
      if (item.hasThumb) continue;
      item.hasThumb = true;
      thumbs.make(item.id, item.file).then(() => this.#grid.show(this.#order));
    }
  }

  #changed() {
    this.render();
    this.fire("select", this.#grid.current);
  }

  /** Tiles do not move under a hand that points at them. */
  #arrange(now = false) {
    const list = $("batch-list");
    if (!now && this.#byHand && (list.matches(":hover") || list.querySelector(":focus"))) return;
    this.#order = this.#items.toSorted((a, b) => rank(a) - rank(b));
    this.#grid.show(this.#order);
  }

  #unsurest() {
    return this.#order.filter(isOpen).toSorted((a, b) => rank(a) - rank(b))[0];
  }

  #drop(items) {
    for (const item of items) thumbs.drop(item.id);
    const gone = new Set(items);
    this.#items = this.#items.filter((item) => !gone.has(item));
  }

  #described(item) {
    const [words, about] = said(item, this.#classes());
    return { url: thumbs.get(item.id), words, about, name: `${item.file.name}:`, dim: item.taught };
  }
}

const isOpen = (item) => !item.taught && !item.pending && !item.useless;

/** Unknown first, then by confidence; what was taught goes to the end. */
function rank(item) {
  if (!isOpen(item)) return 3;
  if (!item.answer) return 2;
  return item.answer.unknown ? -1 : item.answer.confidence;
}

function said({ taught, pending, useless, answer }, classes) {
  if (taught) return [String(taught.label), "learned"];
  if (useless) return ["not usable", ""];
  if (pending) return ["…", "learning"];
  if (!answer || !classes.length) return [classes.length ? "…" : "", ""];
  if (answer.unknown) return ["unknown", ""];
  return [String(answer.label), cannotKnow(answer, classes) ? "not sure yet" : chance(answer.confidence)];
}
