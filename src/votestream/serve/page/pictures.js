// Images in the browser's memory: made smaller before they are sent, and thumbnails, of which only so many are kept.

const FRAME_SIDE = 448; // shorter side of a camera frame, in pixels
const LARGE_FILE = 2_000_000; // bytes from which a photo is made smaller before it is sent
const LARGE_SIDE = 1024;
const THUMB_SIDE = 160;
const MOST_THUMBS = 240;

/** Draw a video, image or bitmap so that its shorter side has so many pixels, never larger than it is. */
function drawn(source, width, height, side) {
  const scale = Math.min(1, side / Math.min(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas;
}

const encoded = (canvas, quality) => new Promise((done) => canvas.toBlob(done, "image/jpeg", quality));

export const frameOf = (video) => encoded(drawn(video, video.videoWidth, video.videoHeight, FRAME_SIDE), 0.9);

/** What is sent of a file: the file itself, or a smaller JPEG of a large photo. The name stays for messages. */
export async function sendable(file) {
  if (file.size <= LARGE_FILE) return { blob: file, name: file.name };
  const bitmap = await opened(file);
  if (!bitmap || Math.min(bitmap.width, bitmap.height) <= LARGE_SIDE) return { blob: file, name: file.name };
  const smaller = await encoded(drawn(bitmap, bitmap.width, bitmap.height, LARGE_SIDE), 0.92);
  bitmap.close();
  return { blob: smaller ?? file, name: file.name };
}

/** Null where this browser cannot show the file; the server may still be able to read it. */
export async function opened(blob) {
  try {
    return await createImageBitmap(blob);
  } catch {
    return null;
  }
}

/** A JPEG whose shorter side has at most so many pixels; null where this browser cannot show the file. */
export async function smallCopy(blob, side) {
  const bitmap = await opened(blob);
  if (!bitmap) return null;
  const small = await encoded(drawn(bitmap, bitmap.width, bitmap.height, side), 0.85);
  bitmap.close();
  return small;
}

/** Of images that were dropped and not learned: there until the page is closed. */
class Thumbs {
  #urls = new Map(); // oldest first
  #last = Promise.resolve();

  /** Keep a small picture of a blob under a name, where this browser can show it. One after another: photos are large. */
  make(name, blob) {
    return (this.#last = this.#last.then(() => this.#make(name, blob)));
  }

  async #make(name, blob) {
    const small = await smallCopy(blob, THUMB_SIDE);
    if (!small) return;
    this.drop(name);
    this.#urls.set(name, URL.createObjectURL(small));
    while (this.#urls.size > MOST_THUMBS) this.drop(this.#urls.keys().next().value);
  }

  get(name) {
    return this.#urls.get(name) ?? null;
  }

  drop(name) {
    const url = this.#urls.get(name);
    if (url) URL.revokeObjectURL(url);
    this.#urls.delete(name);
  }
}

export const thumbs = new Thumbs();
