// Small copies of the images that were learned, kept in this browser and nowhere else: by lesson, bounded, optional.

import { Emitter } from "./dom.js";
import { smallCopy } from "./pictures.js";

const MOST = 2000; // of all models of this address; the oldest go first
const SIDE = 256; // enough to learn the copy again as another class
const SWITCH = "votestream-keep-photos";

class Photos extends Emitter {
  #model = null;
  #store = null; // a promise of the database, or of null where the browser has none
  #photos = new Map(); // lesson -> {lesson, label, blob, url}
  #changes = new Map(); // lesson -> {kind, label, to, undone}: renamed and forgotten classes
  #groups = null; // label -> its photos, newest first
  #last = Promise.resolve();

  /** Fires "change" when there are other photos, or they belong to other classes. */
  get kept() {
    return localStorage.getItem(SWITCH) !== "no";
  }

  /** Whether photos outlive the page. Where not, those that are stored are deleted. */
  async keep(is) {
    localStorage.setItem(SWITCH, is ? "yes" : "no");
    const rows = [...this.#photos.values()].map((each) => this.#row(each));
    if (is) await this.#write((store) => rows.forEach((row) => store.put(row)));
    else await this.#write((store) => store.clear());
  }

  /** What the model says of its newest changes. */
  async follow({ identity, recent }) {
    if (this.#model !== identity) await this.#open(identity);
    let changed = false;
    for (const { lesson, kind, label, to, undone } of recent) {
      if (kind === "rename" || kind === "forget") {
        const known = this.#changes.get(lesson);
        if (known && known.undone === undone) continue;
        const change = { kind, label, to, undone };
        this.#changes.set(lesson, change);
        this.#write((store) => store.put({ model: identity, lesson, change, at: 0 }));
        changed = true;
      } else if (kind === "learn" && undone && this.#photos.has(lesson)) {
        this.remove(lesson);
      }
    }
    if (changed) this.#changed();
  }

  /** One after another: photos are large. */
  add(lesson, label, blob) {
    return (this.#last = this.#last.then(async () => {
      const small = await smallCopy(blob, SIDE);
      if (!small) return;
      const photo = { lesson, label, blob: small, url: null };
      this.#photos.set(lesson, photo);
      if (this.#photos.size > MOST) this.#forget(Math.min(...this.#photos.keys()));
      if (this.kept) await this.#write((store) => store.put(this.#row(photo)), true);
      this.#changed();
    }));
  }

  /** An address for an image; null where there is no photo of that lesson. */
  url(lesson) {
    const photo = this.#photos.get(lesson);
    if (photo) photo.url ??= URL.createObjectURL(photo.blob);
    return photo?.url ?? null;
  }

  /** Of a class, the newest first. */
  of(label) {
    this.#groups ??= Map.groupBy([...this.#photos.values()].sort((a, b) => b.lesson - a.lesson), (each) => this.#labelOf(each));
    return this.#groups.get(String(label)) ?? [];
  }

  /** The lesson was taken back. */
  remove(lesson) {
    const change = this.#changes.get(lesson);
    if (change) change.undone = true;
    if (change) this.#write((store) => store.put({ model: this.#model, lesson, change, at: 0 }));
    else this.#write((store) => store.delete([this.#model, lesson]));
    this.#forget(lesson);
    this.#changed();
  }

  #forget(lesson) {
    const url = this.#photos.get(lesson)?.url;
    if (url) URL.revokeObjectURL(url);
    this.#photos.delete(lesson);
  }

  #changed() {
    this.#groups = null;
    this.fire("change");
  }

  /** The class that a photo belongs to now: its own, as it was renamed since; null where it was forgotten. */
  #labelOf({ lesson, label }) {
    let now = String(label);
    for (const number of [...this.#changes.keys()].sort((a, b) => a - b)) {
      const change = this.#changes.get(number);
      if (number < lesson || change.undone || String(change.label) !== now) continue;
      now = change.kind === "forget" ? null : String(change.to);
    }
    return now;
  }

  #row({ lesson, label, blob }) {
    return { model: this.#model, lesson, label, blob, at: Date.now() };
  }

  async #open(identity) {
    this.#model = identity;
    this.#photos.clear();
    this.#changes.clear();
    this.#store ??= opened();
    const database = await this.#store;
    const rows = database ? await asked(photosOf(database).getAll(IDBKeyRange.bound([identity], [identity, []]))) : [];
    for (const { lesson, label, blob, change } of rows ?? []) {
      if (change) this.#changes.set(lesson, change);
      else if (!this.#photos.has(lesson)) this.#photos.set(lesson, { lesson, label, blob, url: null });
    }
    this.#changed();
  }

  /** A full disk, or a browser that keeps nothing: the photos are there until the page is closed. */
  async #write(change, prune = false) {
    const database = await this.#store;
    if (!database) return;
    try {
      const store = photosOf(database, "readwrite");
      change(store);
      if (!prune) return;
      const left = (await asked(store.count())) - MOST;
      if (left > 0) {
        const range = IDBKeyRange.lowerBound(1); // changes have 0
        const keys = await asked(store.index("at").getAllKeys(range, left));
        for (const key of keys ?? []) store.delete(key);
      }
    } catch {
      // See above.
    }
  }
}

const photosOf = (database, mode = "readonly") => database.transaction("photos", mode).objectStore("photos");

const asked = (request) =>
  new Promise((done) => {
    request.onsuccess = () => done(request.result);
    request.onerror = request.onblocked = () => done(null);
  });

async function opened() {
  try {
    const request = indexedDB.open("votestream", 1);
    request.onupgradeneeded = () =>
      request.result.createObjectStore("photos", { keyPath: ["model", "lesson"] }).createIndex("at", "at");
    return await asked(request);
  } catch {
    return null;
  }
}

export const photos = new Photos();
