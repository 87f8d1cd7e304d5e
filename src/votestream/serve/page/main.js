// Brings the parts together: who is told what when something happens.

import { announce } from "./announce.js";
import { showAnswer, showWaiting } from "./answer.js";
import * as api from "./api.js";
import { Batch } from "./batch.js";
import { Camera } from "./camera.js";
import * as changes from "./changes.js";
import { guessed } from "./certainty.js";
import { openMenu } from "./class_menu.js";
import { ClassPhotos } from "./class_photos.js";
import { Classes } from "./classes.js";
import { Connection } from "./connection.js";
import { askText, show } from "./dialogs.js";
import { $, counted, el, size, tell } from "./dom.js";
import { listenForFiles, pick } from "./intake.js";
import { listenForKeys } from "./keys.js";
import { showLessons } from "./lessons.js";
import { Live } from "./live.js";
import { setUpNewClass, showNewClass } from "./new_class.js";
import * as notices from "./notices.js";
import { photos } from "./photos.js";
import { Queue } from "./queue.js";
import { openRecord, showSpark } from "./record.js";
import { download, offerPhone } from "./sharing.js";
import { Stage } from "./stage.js";
import { showWhy } from "./why.js";

const connection = new Connection();
const queue = new Queue();
const camera = new Camera($("video"));
const live = new Live(camera, connection);
const classes = new Classes();
const known = () => connection.model?.classes ?? [];
const batch = new Batch(queue, known, undo);
const stage = new Stage(camera);
const classPhotos = new ClassPhotos({ enabled: () => ready(), takeBack: undo, teach: (label, files) => teachFiles(label, files) });

/** What a class's button does: "camera" holds it, "picture" teaches the selected images, "idle" asks for images. */
const teachMode = () => (stage.mode === "picture" && !batch.selected.length ? "idle" : stage.mode);

/** Whether something can be taught now. */
const ready = () => connection.here && connection.model?.state === "ready" && !connection.model.following;

// What the model knows, wherever it is shown.

function render() {
  const model = connection.model;
  if (!model) return;
  const empty = !model.classes.length;
  document.body.classList.remove("starting");
  document.body.classList.toggle("empty", empty);
  document.body.classList.toggle("gone", !connection.here);
  document.title = `${model.name} · VoteStream`;
  $("model-name").textContent = model.name;
  $("counts").textContent = empty ? "" : summary(model);
  $("download-button").hidden = empty;
  tell($("kept"), empty ? "" : kept(model));
  showSpark(model.track);
  notices.state(model);
  classes.setModel(model);
  classPhotos.setModel(model);
  photos.follow(model);
  showLessons(model, ready(), undo);
  renderMode();
  renewAnswers();
}

function summary({ images, classes: all }) {
  const known = counted(all.length, "class", "classes");
  return images === null ? known : `${counted(images, "image")}, ${known}`; // not every learner counts
}

/** What the server keeps, said plainly. */
function kept(model) {
  const what = /candidates|knn|er_/.test(model.learner.name) ? "feature vectors" : "statistics";
  const undoable = model.undo_reaches ? `, and for undo the features of the last ${counted(model.undo_reaches, "lesson")}` : "";
  const classes = counted(model.classes.length, "class", "classes");
  return `The server keeps no image. It keeps ${what} of ${classes}, ${size(model.bytes)}${undoable}. Small copies of photos are only in this browser. ${model.remarks.join(" ")}`;
}

function renderMode() {
  const touch = matchMedia("(hover: none)").matches;
  const empty = !known().length;
  const mode = teachMode();
  const n = batch.selected.length;
  classes.setMode(mode, ready(), batch.selected);
  const learn = n > 1 ? `Learn ${counted(n, "image")}` : "Learn this image";
  const which = mode !== "picture" ? "New class" : `New class for ${n > 1 ? `these ${counted(n, "image")}` : "this image"}`;
  const placeholder = !empty ? which : mode === "idle" ? "Name of the first class" : "What is this?";
  showNewClass({ idle: "Add images", camera: "Hold to teach", picture: learn }[mode], placeholder, ready());
  $("idle-words").textContent = touch ? "Show it an image" : "Drop or paste images here";
  tell($("hint"), empty || connection.model.following ? "" : hint(mode, n, touch));
}

/** What can be done now, with so many images selected. */
function hint(mode, n, touch) {
  if (mode === "camera") {
    const keys = "Hold a button or its number key while you show the thing. U takes the last lesson back.";
    return touch ? "Hold a button while you show the thing. A tap teaches one frame." : keys;
  }
  if (mode === "picture") {
    const words = n > 1 ? "All selected images become the class you choose." : "Wrong? Choose the right class.";
    return touch ? words : `${words} Keys: the number of a class, Ctrl-A for all images, U to undo.`;
  }
  if (stage.mode === "picture") return "Select images to teach them, or to move them to another class.";
  return touch ? "" : "Drop images on a class to teach it. A folder of folders becomes classes.";
}

function showNothing() {
  showAnswer(null);
  showWhy(null);
  classes.setAnswer(null);
}

connection.on("model", render);
connection.on("gone", () => {
  notices.gone(true);
  live.release();
  render();
});
connection.on("back", () => {
  notices.gone(false);
  announce("The server is back.");
  render();
});
connection.on("locked", async (why) => {
  const token = await askText("This server asks for a token", why, "Enter", "password");
  if (token) api.setToken(token);
  start();
});

// Teaching.

let oldAnswers = 0; // images asked about were answered before this lesson

function learned(told) {
  oldAnswers = told.lesson;
  const { label, new_class: isNew, was } = told;
  announce(`Learned as ${label}. ${isNew || !was ? "A new class." : `Before: ${guessed(was)}.`}`);
  const twin = told.lessons?.find((each) => each.similar) ?? told;
  if (twin.similar) notices.trouble(`${twin.label} is a new class, and there is ${twin.similar} too. Rename one of them to merge both.`);
  connection.refresh();
}

function renewAnswers() {
  if (!oldAnswers || queue.busy || connection.model.lesson < oldAnswers) return;
  oldAnswers = 0;
  batch.refresh();
}

const keepPhoto = (item, lesson) => lesson && photos.add(lesson.lesson, lesson.label, item.file);
const items = (files) => files.map((file) => ({ file }));
const teachFiles = (label, files) => queue.learn(label, items(files), keepPhoto);

queue.on("taught", learned);
queue.on("idle", renewAnswers);
live.on("taught", (told) => {
  classes.setHeld(live.held);
  learned(told);
});
live.on("refused", notices.trouble);
live.on("answer", (answer) => {
  if (stage.mode !== "camera") return;
  showAnswer(answer, known(), true);
  showWhy(answer, connection.model, { key: "camera", image: async () => new File([await camera.frame()], "frame.jpg") });
  classes.setAnswer(answer, true);
});

function press(label) {
  live.hold(label);
  classes.setHeld(live.held);
}

function release() {
  live.release();
  classes.setHeld(null);
}

/** A class's button without holding: an image in view is learned as it, or images are chosen for it. */
function tap(label) {
  if (stage.mode === "camera") {
    press(label);
    release();
  } else if (teachMode() === "picture") {
    batch.teach(label);
  } else {
    pick($("file-input"), (files) => teachFiles(label, files));
  }
}

classes.on("press", press);
classes.on("release", release);
classes.on("tap", tap);
classes.on("rename", ({ label, to }) => changes.rename(label, to, known()));

setUpNewClass({
  holds: () => stage.mode === "camera" && ready(),
  press,
  release: () => {
    const held = Boolean(live.held);
    release();
    return held;
  },
  tap,
});

// Asking.

batch.on("select", (item) => {
  if (stage.mode !== "camera" || item) stage.showPicture(item?.file ?? null);
  renderMode();
  if (!item?.answer) return stage.mode === "camera" ? undefined : showNothing();
  showAnswer(item.answer, known());
  const { file, taught } = item;
  showWhy(item.answer, connection.model, { key: `${item.id}, ${item.answer.lesson}`, image: async () => file, lesson: taught?.lesson });
  classes.setAnswer(item.answer);
});
batch.on("taught", ({ item, lesson }) => keepPhoto(item, lesson));
stage.on("mode", () => {
  if (stage.mode === "camera") {
    batch.clear();
    live.run();
  }
  showNothing();
  if (stage.mode === "camera" && known().length) showWaiting();
  renderMode();
});
stage.on("close", () => batch.clear());

function askAbout(files) {
  batch.add(files);
  if (!known().length) $("new-name").focus();
}

$("choose-button").onclick = () => pick($("file-input"), askAbout);
$("photo-button").onclick = () => pick($("photo-input"), askAbout);
listenForFiles({
  ready: () => connection.here, // while the server gets ready, files wait
  known,
  teach: teachFiles,
  teachClasses: (found) => queue.learnClasses(new Map([...found].map(([label, files]) => [label, items(files)])), keepPhoto),
  ask: askAbout,
});

// Changing what was learned.

/** Take a lesson back, or without one the newest change. Whether it could be. */
async function undo(each) {
  if (!ready()) return false;
  return changes.undo(each, ({ lesson }) => {
    batch.undone(lesson);
    photos.remove(lesson);
    connection.refresh();
  });
}

listenForKeys({
  undo: () => undo(null),
  press: (number) => {
    const label = classes.numbered(number);
    if (label === undefined || !ready()) return;
    if (stage.mode === "camera") press(label);
    else tap(label);
  },
  release,
  selectAll: () => batch.selectAll(),
  help: () => show($("help")),
});

let photosShown = 0;
photos.on("change", () => {
  clearTimeout(photosShown);
  photosShown = setTimeout(() => {
    classes.showPhotos();
    if (connection.model) showLessons(connection.model, ready(), undo);
  }, 100);
});
classes.on("photos", (label) => classPhotos.open(label));
classes.on("menu", ({ label, button }) => {
  const about = known().find((each) => each.label === label);
  const acts = {
    "menu-photos": () => classPhotos.open(label),
    "menu-add": () => pick($("file-input"), (files) => teachFiles(label, files)),
    "menu-rename": () => classes.startRename(label),
    "menu-forget": () => changes.forget(about),
  };
  openMenu(button, acts, ready());
});

$("record-button").onclick = () => openRecord(connection.model);
$("download-button").onclick = () => download(connection.model);
$("help-button").onclick = () => show($("help"));

async function chooseModel() {
  const { models } = await api.models();
  if (models.length < 2) return;
  const names = models.map((each) => each.name ?? each);
  const wanted = new URLSearchParams(location.search).get("model");
  const name = names.includes(wanted) ? wanted : names[0];
  $("model-choice").replaceChildren(...names.map((each) => el("option", { value: each, selected: each === name }, each)));
  $("model-choice").hidden = false;
  $("model-name").hidden = true;
  $("model-choice").onchange = () => (location.search = new URLSearchParams({ model: $("model-choice").value }));
  api.useModel(name);
}

/** Nothing here stops the page: without the list there is one model, and without addresses no phone. */
async function start() {
  await chooseModel().catch(() => {});
  connection.run();
  offerPhone().catch(() => {});
}

notices.setUp(queue);
start();
