// The place where the camera or an image is seen. Its mode decides what the classes' buttons do.

import { Camera } from "./camera.js";
import { $, tell } from "./dom.js";
import { trouble } from "./notices.js";

export class Stage extends EventTarget {
  mode = "idle"; // or "camera", "picture"
  #camera;
  #url = null;

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
    $("camera-button").disabled = true;
    try {
      await start();
      this.#set("camera");
    } catch (error) {
      this.close();
      trouble(error.message);
    }
    $("camera-button").disabled = false;
  }

  /** Show an image file; null shows nothing. */
  showPicture(file) {
    if (this.#url) URL.revokeObjectURL(this.#url);
    this.#url = null;
    if (!file) {
      if (this.mode === "picture") this.#set("idle");
      return;
    }
    this.#camera.stop();
    this.#url = URL.createObjectURL(file);
    this.#unseen(false);
    $("picture").src = this.#url;
    $("picture").alt = file.name;
    this.#set("picture");
  }

  close() {
    this.#camera.stop();
    this.showPicture(null);
    this.#set("idle");
    this.dispatchEvent(new Event("close"));
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
    this.dispatchEvent(new Event("mode"));
  }
}
