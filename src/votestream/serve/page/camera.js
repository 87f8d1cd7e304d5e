// The camera: started when asked, rear camera first, stopped when the page is left.

import { frameOf } from "./pictures.js";

export class Camera {
  #stream = null;
  #devices = [];

  constructor(video) {
    this.video = video;
  }

  /** Why there can be no camera here, in a sentence; null where there can. */
  static missing() {
    if (navigator.mediaDevices?.getUserMedia) return null;
    if (!isSecureContext) {
      return "Browsers allow a live camera only over https or on the computer that runs VoteStream. Taking photos works here too.";
    }
    return "This browser gives no access to a camera.";
  }

  get on() {
    return this.#stream !== null;
  }

  get several() {
    return this.#devices.length > 1;
  }

  async start(device = null) {
    const which = device ? { deviceId: { exact: device } } : { facingMode: { ideal: "environment" } };
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({
        video: { ...which, width: { ideal: 1280 }, height: { ideal: 720 } },
        audio: false,
      });
    } catch (error) {
      throw new Error(refusal(error));
    }
    this.stop();
    this.#stream = stream;
    this.video.srcObject = stream;
    this.video.classList.toggle("mirrored", this.#settings().facingMode === "user");
    await this.video.play();
    const devices = await navigator.mediaDevices.enumerateDevices();
    this.#devices = devices.filter((each) => each.kind === "videoinput").map((each) => each.deviceId);
  }

  /** The next camera in line. */
  async other() {
    const now = this.#devices.indexOf(this.#settings().deviceId);
    await this.start(this.#devices[(now + 1) % this.#devices.length]);
  }

  stop() {
    this.#stream?.getTracks().forEach((track) => track.stop());
    this.#stream = null;
    this.video.srcObject = null;
  }

  /** The current frame as a JPEG, or null before the first one has come. */
  async frame() {
    return this.on && this.video.videoWidth ? frameOf(this.video) : null;
  }

  #settings() {
    return this.#stream?.getVideoTracks()[0]?.getSettings() ?? {};
  }
}

function refusal(error) {
  if (error.name === "NotAllowedError") return "The browser was told not to use the camera. Allow it for this page and try again.";
  if (error.name === "NotFoundError" || error.name === "OverconstrainedError") return "No camera was found.";
  if (error.name === "NotReadableError") return "The camera is used by another program.";
  return `The camera cannot be used: ${error.message}.`;
}
