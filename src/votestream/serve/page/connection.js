// Keeps what the page knows of the model up to date: events while the server is there, attempts while it is not.

import * as api from "./api.js";
import { Emitter, pause } from "./dom.js";

const SILENCE = 40_000; // the server sends a sign of life every 15 seconds
const AGAIN = [500, 1000, 2000, 3000];

export class Connection extends Emitter {
  here = true;
  model = null;
  #stream = null;
  #wanted = false;
  #fetching = false;

  constructor() {
    super();
    api.whenGone(() => this.#lost());
  }

  /** Fires "model" with every new state of the model, "gone" and "back", and "locked" where a token is missing. */
  async run() {
    for (let attempt = 0; ; ) {
      this.#stream = new AbortController();
      let timer;
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.#stream.abort(), SILENCE);
      };
      try {
        await this.#fetch();
        if (!this.here) {
          this.here = true;
          this.fire("back");
        }
        attempt = 0;
        await api.events(() => this.refresh(), alive, this.#stream.signal);
      } catch (error) {
        if (error instanceof api.Refused && error.status === 401) {
          this.fire("locked", error.message);
          return;
        }
      }
      clearTimeout(timer);
      this.#lost();
      await pause(AGAIN[Math.min(attempt++, AGAIN.length - 1)]);
    }
  }

  /** Fetch the model's state soon; however often it is asked, one request is under way. */
  async refresh() {
    this.#wanted = true;
    if (this.#fetching) return;
    this.#fetching = true;
    while (this.#wanted) {
      this.#wanted = false;
      try {
        await this.#fetch();
      } catch {
        // The loop in run() notices and tries again.
      }
      await pause(250);
    }
    this.#fetching = false;
  }

  async #fetch() {
    this.model = await api.model();
    this.fire("model", this.model);
    if (this.model.state === "loading") setTimeout(() => this.refresh(), 700);
  }

  #lost() {
    this.#stream?.abort();
    if (!this.here) return;
    this.here = false;
    this.fire("gone");
  }
}
