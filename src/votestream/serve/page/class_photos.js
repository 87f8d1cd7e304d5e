// The photos of a class, to look through: those selected are moved to another class, or deleted with their lessons.

import { announce } from "./announce.js";
import { ask, show } from "./dialogs.js";
import { $, counted, el, tell } from "./dom.js";
import { Grid } from "./grid.js";
import { photos } from "./photos.js";

export class ClassPhotos {
  #label = null;
  #model = null;
  #on;
  #grid = new Grid($("photos-list"), (photo) => this.#described(photo));

  /** `on` has `enabled()`, `takeBack(photo)`, which says whether it could, and `teach(label, files)`. */
  constructor(on) {
    this.#on = on;
    this.#grid.on("select", () => this.render());
    this.#grid.on("remove", () => this.#delete());
    photos.on("change", () => this.render());
    $("photos-all").onclick = () => this.#grid.selectAll();
    $("photos-move").onclick = () => this.#move();
    $("photos-delete").onclick = () => this.#delete();
    $("photos-keep").onchange = () => photos.keep($("photos-keep").checked);
  }

  open(label) {
    this.#label = label;
    this.#grid.show([]);
    $("photos-keep").checked = photos.kept;
    show($("photos"));
    this.render();
    const first = $("photos-list").querySelector("[role=option]");
    (first ?? $("photos-close")).focus();
  }

  setModel(model) {
    this.#model = model;
    this.render();
  }

  render() {
    if (!$("photos").open) return;
    const about = this.#model.classes.find((each) => String(each.label) === String(this.#label));
    const mine = photos.of(this.#label);
    $("photos-title").textContent = String(this.#label);
    const learned = about?.count ? `${counted(about.count, "image")} learned. ` : "";
    const here = mine.length ? `${counted(mine.length, "photo")} of them in this browser.` : "No photos of them are in this browser.";
    $("photos-words").textContent = `${learned}${here} Photos that were added elsewhere are not shown: the server keeps none.`;
    this.#grid.show(mine);
    const others = this.#model.classes.filter((each) => each !== about).map((each) => String(each.label));
    const listed = [...$("photos-to").options].map((each) => each.value);
    if (String(others) !== String(listed)) $("photos-to").replaceChildren(...others.map((each) => el("option", {}, each)));
    const able = this.#on.enabled() && this.#chosen().length > 0;
    $("photos-move").disabled = !able || !others.length;
    $("photos-to").disabled = !others.length;
    $("photos-delete").disabled = !able;
    $("photos-count").textContent = `${this.#grid.selected.size.toLocaleString("en")} selected`;
    const old = mine.filter((photo) => this.#isOld(photo)).length;
    tell($("photos-old"), old ? `${counted(old, "photo")} can only be looked at: undo no longer reaches so far back.` : "");
  }

  /** Undo reaches back so many changes. */
  #isOld = ({ lesson }) => lesson <= this.#model.lesson - this.#model.undo_reaches;

  #chosen = () => [...this.#grid.selected].filter((photo) => !this.#isOld(photo));

  async #move() {
    const [to, chosen] = [$("photos-to").value, this.#chosen()];
    const files = [];
    for (const { lesson, blob } of chosen) {
      if (await this.#on.takeBack({ lesson })) files.push(new File([blob], `photo ${lesson}.jpg`, { type: blob.type }));
    }
    if (!files.length) return;
    this.#on.teach(to, files);
    announce(`Moved ${counted(files.length, "photo")} to ${to}`);
  }

  async #delete() {
    const chosen = this.#chosen();
    if (!chosen.length || $("photos-delete").disabled) return;
    const title = `Delete ${counted(chosen.length, "photo")} of ${this.#label}?`;
    const words = "What was learned from them is taken back. Drop the images again to learn them once more.";
    if ((await ask(title, words, [["", "Cancel"], ["delete", "Delete", "danger"]])) !== "delete") return;
    let done = 0;
    for (const { lesson } of chosen) if (await this.#on.takeBack({ lesson })) done += 1;
    announce(`Deleted ${counted(done, "photo")}`);
  }

  #described(photo) {
    const old = this.#isOld(photo);
    return { url: photos.url(photo.lesson), words: "", about: old ? "too old to undo" : "", name: `Photo ${photo.lesson}`, dim: old };
  }
}
