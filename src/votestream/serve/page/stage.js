// The place where the camera or an image is seen. Its mode decides what the classes' buttons do.

import { Camera } from "./camera.js";
import { $, Emitter, tell } from "./dom.js";
import { trouble } from "./notices.js";

export class Stage extends Emitter {
  mode = "idle"; // or "camera", "picture"
  #camera;
  #file = null;

  /** Fires "mode" when it changes, and "close" when the person has closed what was seen. */
  constructor(camera) {
    super();
    this.#camera = camera;
    const missing = Camera.missing();
    $("camera-button").hidden = Boolean(missing);
    $("photo-button").hidden = !missing;
    tell($("camera-words"), missing ?? "");
    $("camera-button").onclick = () => this.startCamera(() => camera.start());
    $("switch-button").onclick = () => this.startCamera(() => camera.other());
    $("close-button").onclick = () => this.close();
    $("picture").onerror = () => this.#unseen(true);
    addEventListener("pagehide", () => camera.stop());
  }

  async startCamera(start) {
    try {
      await start();
      this.#set("camera");
    } catch (error) {
      this.close();
      trouble(error.message);
    }
  }

  /** Show an image file; null shows nothing. */
  showPicture(file) {
    if (file && file === this.#file) return;
    if (this.#file) URL.revokeObjectURL($("picture").src);
    this.#file = file;
    if (!file) {
      if (this.mode === "picture") this.#set("idle");
      return;
    }
    this.#camera.stop();
    this.#unseen(false);
    $("picture").src = URL.createObjectURL(file);
    $("picture").alt = file.name;
    this.#set("picture");
  }

  close() {
    this.#camera.stop();
    this.showPicture(null);
    this.#set("idle");
    this.fire("close");
  }

  #unseen(is) {
    $("picture").hidden = is;
    $("no-picture").hidden = !is;
  }

  #set(mode) {
    const hadFocus = $("stage").contains(document.activeElement);
    this.mode = mode;
    document.body.dataset.mode = mode;
    $("video").hidden = mode !== "camera";
    $("idle").hidden = mode !== "idle";
    if (mode !== "picture") $("picture").hidden = $("no-picture").hidden = true;
    $("close-button").hidden = mode === "idle";
    $("close-button").textContent = mode === "camera" ? "Stop camera" : "Close";
    $("switch-button").hidden = mode !== "camera" || !this.#camera.several;
    // The button that was pressed is gone: the focus stays nearby.
    if (hadFocus) (mode === "idle" ? $("choose-button") : $("close-button")).focus();
    this.fire("mode");
  }
}
