// A grid of images to select from: with the mouse, a finger, or the keyboard, as in a file manager.

import { Emitter, arrange, counted, el } from "./dom.js";

const MOST_SHOWN = 200;
const DRAWN = 6; // pixels from which a press becomes a rectangle

export class Grid extends Emitter {
  selected = new Set();
  current = null; // the item in view; the keyboard starts from it
  #list;
  #describe;
  #items = [];
  #tiles = new Map();
  #anchor = null; // where a range begins
  #drawing = null;

  /**
   * `describe(item)` gives {url, words, about, name, dim}. Fires "select" when the person changes what is selected or
   * in view, and "remove" for the Delete key.
   */
  constructor(list, describe) {
    super();
    this.#list = list;
    this.#describe = describe;
    list.onkeydown = (event) => this.#key(event);
    list.onpointerdown = (event) => this.#startDrawing(event);
    list.onpointermove = (event) => this.#draw(event);
    list.onpointerup = list.onpointercancel = () => this.#endDrawing();
  }

  get shown() {
    return this.#items.slice(0, MOST_SHOWN);
  }

  /** Items in this order. Those that are gone are no longer selected. */
  show(items) {
    this.#items = items;
    const there = new Set(items);
    for (const item of this.selected) if (!there.has(item)) this.selected.delete(item);
    for (const item of this.#tiles.keys()) if (!there.has(item)) this.#tiles.delete(item);
    if (!there.has(this.current)) this.current = null;
    const nodes = this.shown.map((item) => this.#tile(item));
    const left = items.length - nodes.length;
    if (left > 0) nodes.push(el("li", { class: "muted small", role: "presentation" }, `and ${counted(left, "more image")}`));
    arrange(this.#list, nodes);
  }

  /** Select exactly these, without telling anyone. */
  set(items, current = items[0] ?? this.current) {
    this.selected = new Set(items);
    this.current = this.#anchor = current;
    const focused = this.#list.contains(document.activeElement);
    this.show(this.#items);
    if (focused) this.#tiles.get(current)?.node.focus();
  }

  selectAll() {
    this.#change(this.#items, this.current ?? this.#items[0]);
  }

  #change(items, current) {
    this.selected = new Set(items);
    this.current = current ?? null;
    this.show(this.#items);
    this.fire("select");
  }

  #tile(item) {
    if (!this.#tiles.has(item)) this.#tiles.set(item, this.#newTile(item));
    const { node, image, blank, words, about } = this.#tiles.get(item);
    const told = this.#describe(item);
    image.hidden = !told.url;
    blank.hidden = Boolean(told.url);
    if (told.url && image.src !== told.url) image.src = told.url;
    words.textContent = told.words;
    about.textContent = told.about;
    node.classList.toggle("dim", Boolean(told.dim));
    node.classList.toggle("current", item === this.current);
    node.setAttribute("aria-selected", String(this.selected.has(item)));
    node.setAttribute("aria-label", [told.name, told.words, told.about].filter(Boolean).join(" "));
    node.tabIndex = item === (this.current ?? this.#items[0]) ? 0 : -1;
    return node;
  }

  #newTile(item) {
    const image = el("img", { alt: "", hidden: true, draggable: "false" });
    const blank = el("span", { class: "blank" });
    const words = el("span", { class: "words", dir: "auto" });
    const about = el("span", { class: "muted small" });
    const check = el("span", { class: "check", "aria-hidden": "true" });
    const onclick = (event) => this.#click(item, event);
    const node = el("li", { class: "tile", role: "option", onclick }, image, blank, words, about, check);
    return { node, image, blank, words, about };
  }

  #click(item, event) {
    if (event.target.matches(".check") || event.ctrlKey || event.metaKey) return this.#toggle(item);
    if (event.shiftKey && this.#anchor) return this.#change(this.#range(item), item);
    this.#anchor = item;
    this.#change([item], item);
  }

  #toggle(item) {
    const others = [...this.selected].filter((each) => each !== item);
    this.#anchor = item;
    this.#change(this.selected.has(item) ? others : [...others, item], item);
  }

  #range(item) {
    const [from, to] = [this.#items.indexOf(this.#anchor), this.#items.indexOf(item)].toSorted((a, b) => a - b);
    return this.#items.slice(Math.max(0, from), to + 1);
  }

  #key(event) {
    const shown = this.shown;
    const at = Math.max(0, shown.indexOf(this.current));
    const ctrl = event.ctrlKey || event.metaKey;
    if (event.key === " " || (event.key === "Enter" && !ctrl)) {
      if (event.key === " ") this.#toggle(shown[at]);
      else this.#change([shown[at]], shown[at]);
    } else if (ctrl && event.key.toLowerCase() === "a") {
      this.selectAll();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.fire("remove");
    } else if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
      const to = shown[Math.min(shown.length - 1, Math.max(0, this.#moved(at, event.key)))];
      if (!event.shiftKey) this.#anchor = to;
      this.#change(event.shiftKey ? this.#range(to) : ctrl ? this.selected : [to], to);
      this.#tiles.get(to).node.focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  #moved(at, key) {
    const tops = this.shown.map((item) => this.#tiles.get(item).node.offsetTop);
    const columns = Math.max(1, tops.filter((top) => top === tops[0]).length);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at, End: tops.length }[key];
    return at + step < 0 && key === "ArrowUp" ? at : at + step;
  }

  // A rectangle drawn with the mouse selects what it touches; with Ctrl or Shift in addition.

  #startDrawing(event) {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.matches(".check")) return;
    const before = event.ctrlKey || event.metaKey || event.shiftKey ? [...this.selected] : [];
    this.#drawing = { x: event.clientX, y: event.clientY, before, band: null };
  }

  #draw(event) {
    const from = this.#drawing;
    if (!from) return;
    const [left, right] = [from.x, event.clientX].toSorted((a, b) => a - b);
    const [top, bottom] = [from.y, event.clientY].toSorted((a, b) => a - b);
    if (!from.band) {
      if (Math.max(right - left, bottom - top) < DRAWN) return;
      from.band = el("div", { class: "band" });
      this.#list.parentElement.append(from.band);
      this.#list.setPointerCapture(event.pointerId);
    }
    Object.assign(from.band.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
    const touched = this.shown.filter((item) => {
      const place = this.#tiles.get(item).node.getBoundingClientRect();
      return place.left < right && place.right > left && place.top < bottom && place.bottom > top;
    });
    this.#change(new Set([...from.before, ...touched]), touched[0] ?? this.current);
  }

  #endDrawing() {
    const band = this.#drawing?.band;
    this.#drawing = null;
    if (!band) return;
    band.remove();
    this.#anchor = this.current;
    // The click that ends a rectangle selects nothing by itself.
    const stop = (event) => event.stopPropagation();
    addEventListener("click", stop, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", stop, { capture: true }));
  }
}
