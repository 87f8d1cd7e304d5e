// While the camera runs: one request at a time. A frame is taught where a class is held, and else predicted.

import * as api from "./api.js";
import { Emitter, pause, randomKey } from "./dom.js";
import { photos } from "./photos.js";

const TEACH_EVERY = 250; // milliseconds between frames of a class that is held
const REST = 60; // between two requests, so that a fast server does not keep the browser busy

export class Live extends Emitter {
  #camera;
  #connection;
  #held = null;
  #taps = [];
  #running = false;
  #taughtAt = 0;

  constructor(camera, connection) {
    super();
    this.#camera = camera;
    this.#connection = connection;
  }

  /** Teach frames as a class until `release`; at least one. Fires "taught", "answer" and "refused". */
  hold(label) {
    this.#held = { label, taught: 0 };
    this.#taps.push(label);
  }

  release() {
    this.#held = null;
  }

  get held() {
    return this.#held;
  }

  async run() {
    if (this.#running) return;
    this.#running = true;
    while (this.#camera.on) {
      await this.#step();
      await pause(REST);
    }
    this.#running = false;
    this.#taps = [];
    this.release();
  }

  async #step() {
    const model = this.#connection.model;
    if (document.hidden || !this.#connection.here || model?.state !== "ready") return pause(200);
    const label = this.#due();
    if (label === null && !model.classes.length) return pause(100);
    const blob = await this.#camera.frame();
    if (!blob) return pause(100);
    try {
      if (label === null) {
        const answer = await api.predictFrame(blob, 50);
        if (this.#camera.on) this.fire("answer", answer);
      } else {
        await this.#teach(label, blob);
      }
    } catch (error) {
      await this.#failed(error, label);
    }
  }

  /** The class that the next frame is to be taught as, or null. */
  #due() {
    if (this.#taps.length) return this.#taps.shift();
    const late = Date.now() - this.#taughtAt >= TEACH_EVERY;
    return this.#held && late ? this.#held.label : null;
  }

  async #teach(label, blob) {
    this.#taughtAt = Date.now();
    const told = await api.learnFrame(label, blob, randomKey());
    await photos.add(told.lesson, told.label, blob);
    if (this.#held?.label === label) this.#held.taught += 1;
    this.fire("taught", told);
  }

  async #failed(error, label) {
    if (label !== null) {
      this.#taps = [];
      this.release();
      this.fire("refused", error.message);
    }
    if (error instanceof api.Refused && label === null && ![409, 429, 503].includes(error.status)) {
      this.fire("refused", error.message);
    }
    await pause(1000 * (error.retryAfter ?? 0.5));
  }
}
