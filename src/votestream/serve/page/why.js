// Why an image is answered so: which places of it count, which photos are most alike, and what the class is mixed up with.

import * as api from "./api.js";
import { $, counted, el, tell } from "./dom.js";
import { photos } from "./photos.js";
import { opened, sendable } from "./pictures.js";
import { showVote } from "./vote.js";

const SIDE = 480; // longer side of the picture, in pixels
const CLASSES = 3; // whose photos are compared with the image
const EACH = 8;
const NEAREST = 4;
const STRONGEST = 0.7; // how opaque a place is at most

let subject = null; // {key, image, lesson}: what the newest answer is about
let told = null; // the key of what is shown
let answer = null;
let model = null;

/** `about` has `key`, which changes with what there is to say, `image()`, and the `lesson` that taught it, if any. */
export function showWhy(newAnswer, newModel, about) {
  [answer, model, subject] = [newAnswer, newModel, about];
  $("why").hidden = !answer;
  if (!answer) told = null;
  if (!answer || !$("why").open) return;
  showVote(answer.vote);
  if (told !== subject.key) explain();
}

$("why").ontoggle = () => {
  told = null;
  if ($("why").open && answer) showWhy(answer, model, subject);
};

async function explain() {
  const { key } = subject;
  const { label } = answer;
  told = key;
  tell($("why-confused"), mixUps(label, model.track));
  tell($("why-words"), "Finding the places that count …");
  const others = likely();
  try {
    const file = await subject.image();
    const image = await sendable(file);
    const found = await api.explain([image, ...others.map(({ lesson, blob }) => ({ blob, name: String(lesson) }))]);
    if (told !== key) return;
    await showPlaces(found, file);
    showNearest(found.nearest, others);
  } catch (error) {
    if (told !== key) return;
    $("why-map").hidden = $("why-nearest").hidden = true;
    tell($("why-words"), error.message);
  }
}

/** Photos of the likeliest classes, from all of the time they were taught. */
function likely() {
  return answer.probabilities.slice(0, CLASSES).flatMap(({ label }) => {
    const mine = photos.of(label).filter((photo) => photo.lesson !== subject.lesson);
    const step = Math.max(1, mine.length / EACH);
    return Array.from({ length: Math.min(EACH, mine.length) }, (_, at) => ({ ...mine[Math.floor(at * step)], now: label }));
  });
}

async function showPlaces({ label, against, places, box }, file) {
  const bitmap = places && (await opened(file));
  $("why-map").hidden = !bitmap;
  $("why-legend").hidden = !bitmap;
  if (!bitmap) {
    const only = against === null ? `${label} is the only class: there is nothing to compare it with.` : "This model cannot tell which places of the image count.";
    return tell($("why-words"), only);
  }
  draw(bitmap, places, box);
  $("why-for").textContent = `for ${label}`;
  $("why-against").textContent = `for ${against}`;
  const words = `What speaks most for ${label} is ${strongest(places)}.`;
  tell($("why-words"), words);
  $("why-map").setAttribute("aria-label", `The image with the places that speak for ${label} and for ${against}. ${words}`);
}

/** Places above 0 in the colour of the page, those below in the colour of warnings; as opaque as they are strong. */
function draw(bitmap, places, [left, top, right, bottom]) {
  const canvas = $("why-map");
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  canvas.width = Math.max(SIDE / 2, Math.round(bitmap.width * scale));
  canvas.height = Math.round((canvas.width * bitmap.height) / bitmap.width);
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const [height, width] = [places.length, places[0].length];
  const most = Math.max(...places.flat().map(Math.abs));
  const map = new OffscreenCanvas(width, height);
  const pixels = new ImageData(width, height);
  places.flat().forEach((value, at) => {
    const colour = value > 0 ? [0, 200, 170] : [255, 130, 0];
    pixels.data.set([...colour, Math.round((255 * STRONGEST * Math.abs(value)) / most)], 4 * at);
  });
  map.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingQuality = "high";
  const [w, h] = [canvas.width, canvas.height];
  context.drawImage(map, left * w, top * h, (right - left) * w, (bottom - top) * h);
}

function strongest(places) {
  const flat = places.flat();
  const at = flat.indexOf(Math.max(...flat));
  const third = (part, of, names) => names[Math.min(2, Math.floor((3 * (part + 0.5)) / of))];
  const row = third(Math.floor(at / places[0].length), places.length, ["at the top", "in the middle", "at the bottom"]);
  const column = third(at % places[0].length, places[0].length, [" left", "", " right"]);
  return row + column;
}

function showNearest(nearest, others) {
  const byLesson = new Map(others.map((photo) => [String(photo.lesson), photo]));
  const shown = nearest.slice(0, NEAREST).map(({ file }) => byLesson.get(file)).filter(Boolean);
  $("why-nearest").hidden = !shown.length;
  $("why-nearest-title").textContent = `Most alike of ${counted(others.length, "photo")} that it learned`;
  $("why-nearest-list").replaceChildren(
    ...shown.map(({ lesson, now }) =>
      el("li", {}, el("img", { src: photos.url(lesson), alt: "" }), el("span", { class: "small", dir: "auto" }, String(now))),
    ),
  );
}

/** From the tests that every image is before it is learned. */
function mixUps(label, track) {
  const pairs = (track?.confusions ?? []).filter((pair) => pair.label === label || pair.taken_for === label).slice(0, 3);
  const words = pairs.map((pair) => `${pair.label} was taken for ${pair.taken_for} ${counted(pair.times, "time")}`);
  return words.length ? `Mixed up so far: ${words.join("; ")}.` : "";
}
