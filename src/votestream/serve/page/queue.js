// Files on their way to the server: one small request at a time, so that progress is seen and the camera has its turn.

import * as api from "./api.js";
import { Emitter, randomKey } from "./dom.js";
import { sendable } from "./pictures.js";

const BATCH_FILES = 6;
const BATCH_BYTES = 8_000_000;

export class Queue extends Emitter {
  #jobs = [];
  #running = false;
  #stop = null;
  done = 0;
  total = 0;

  /**
   * Learn `items` ({file, ...}) as a class. `each(item, lesson)` is called for every one, with null where it cannot
   * be learned, undefined where the queue was stopped before. Fires "progress" while it works, "taught" and "problems"
   * with what the server said, "idle" at the end.
   */
  learn(label, items, each = () => {}) {
    this.#add({ kind: "learn", label, items, each });
  }

  /**
   * Predict `items`, after all that is to be learned; `each(item, answer)` is called for every one, with null where
   * there is no answer. Where it is quiet, no progress is shown.
   */
  predict(items, quiet, each) {
    this.#add({ kind: "predict", items, quiet, each });
  }

  /** Several classes at once: a few images of each in turn, so that they are learned side by side. */
  learnClasses(classes, each) {
    const cut = [...classes].map(([label, items]) => [label, pieces(items, BATCH_FILES)]);
    for (let turn = 0; cut.some(([, parts]) => turn < parts.length); turn++) {
      for (const [label, parts] of cut) if (turn < parts.length) this.learn(label, parts[turn], each);
    }
  }

  get busy() {
    return this.#running;
  }

  get kind() {
    return this.#jobs[0]?.kind ?? null;
  }

  /** Leave out what has not been sent yet. */
  stop() {
    const left = this.#jobs;
    this.#jobs = [];
    this.#stop?.abort();
    for (const { items, each } of left) for (const item of items.splice(0)) each(item, undefined);
  }

  async #add(job) {
    if (!job.quiet) this.total += job.items.length;
    const later = job.kind === "learn" ? this.#jobs.findIndex((other) => other.kind === "predict") : -1;
    this.#jobs.splice(later === -1 ? this.#jobs.length : later, 0, { ...job, items: [...job.items] });
    if (this.#running) return;
    this.#running = true;
    while (this.#jobs.length) {
      const job = this.#jobs[0];
      this.fire("progress");
      await this.#batch(job);
      if (!job.items.length) this.#jobs = this.#jobs.filter((other) => other !== job);
    }
    this.#running = false;
    this.done = this.total = 0;
    this.fire("idle");
  }

  async #batch(job) {
    const batch = job.items.splice(0, BATCH_FILES);
    const files = [];
    for (const item of batch) files.push(await sendable(item.file)); // one large photo in memory at a time
    let bytes = 0;
    let fit = files.findIndex((file) => (bytes += file.blob.size) > BATCH_BYTES);
    if (fit === -1) fit = files.length;
    fit = Math.max(1, fit);
    job.items.unshift(...batch.splice(fit));
    files.splice(fit);
    this.#stop = new AbortController();
    try {
      await this.#send(job, batch, files);
    } catch (error) {
      const stopped = this.#stop.signal.aborted;
      for (const item of batch) job.each(item, stopped ? undefined : null);
      if (!stopped) this.fire("problems", refusals(error, batch, job.kind));
    }
    if (!job.quiet) this.done += batch.length;
  }

  async #send(job, batch, files) {
    if (job.kind === "learn") {
      const told = await api.learn(job.label, files, randomKey(), this.#stop.signal);
      pair(batch, told.lessons, told.problems, job.each);
      this.fire("taught", told);
      if (told.problems.length) this.fire("problems", told.problems);
      return;
    }
    const told = await api.predict(files, 50, this.#stop.signal);
    const { answers = [told], problems = [] } = told; // one file alone is answered without a list
    pair(batch, answers, problems, job.each);
    if (problems.length) this.fire("problems", problems);
  }
}

const pieces = (items, most) =>
  Array.from({ length: Math.ceil(items.length / most) }, (_, at) => items.slice(at * most, (at + 1) * most));

/** Results come in the order of the files and leave out those with a problem; names may be there twice. */
function pair(items, results, problems, each) {
  let at = 0;
  for (const item of items) {
    const mine = !problems.length || results[at]?.file === item.file.name;
    each(item, mine ? results[at++] : null);
  }
}

/** What to say of the files of a request that was refused as a whole. */
function refusals(error, batch, kind) {
  if (error.problems?.length) return error.problems;
  const not = kind === "learn" ? "not learned" : "not predicted";
  return batch.map(({ file }) => ({ file: file.name, problem: `${not}: ${error.message}` }));
}
