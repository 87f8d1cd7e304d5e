// Files come in: dropped on a class or anywhere, pasted, chosen, or photographed.

import { ask, askText } from "./dialogs.js";
import { $, counted, el } from "./dom.js";
import { classesIn, dropped, everyFile } from "./files.js";

/** `to` has `ready()`, `teach(label, files)`, `teachClasses(label -> files)`, `ask(files)` and `known()`. */
export function listenForFiles(to) {
  let target = null;
  const point = (node) => {
    target?.classList.remove("drop");
    target = node;
    target?.classList.add("drop");
  };
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = to.ready() ? "copy" : "none";
    point(to.ready() ? placeOf(event.target) : null);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || point(null));
  document.addEventListener("drop", async (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    const place = placeOf(event.target);
    point(null);
    if (to.ready()) await take(await dropped(event.dataTransfer), place, to);
  });
  document.addEventListener("paste", async (event) => {
    if (!event.clipboardData.files.length || !to.ready()) return;
    event.preventDefault();
    await take(await dropped(event.clipboardData), placeOf(document.activeElement), to);
  });
}

/** The class row, the form of a new class, or the stage. */
const placeOf = (node) => node.closest?.("body:not(.copy) :is(li.class:not(.unknown), #new-class)") ?? $("stage");

async function take(found, place, to) {
  const label = await labelOf(place, found);
  if (label === null) return;
  if (label !== undefined) return to.teach(label, [...found.files, ...found.folders.flatMap(everyFile)]);
  const classes = classesIn(found.folders);
  if (classes.size && document.body.matches(".copy")) to.ask([...classes.values()].flat());
  else if (classes.size) await offerClasses(classes, found, to);
  else if (found.folders.length) await ask("No images were found", "Nothing in what you dropped looks like an image.", [["", "Close"]]);
  if (found.files.length) to.ask(found.files);
}

/** The class that a place stands for; undefined for none, null where the person left the question. */
async function labelOf(place, found) {
  if (place.id !== "new-class") return place.dropLabel;
  const name = $("new-name").value.trim();
  $("new-name").value = "";
  if (name) return name;
  const n = found.files.length + found.folders.flatMap(everyFile).length;
  return askText("What is its name?", `${counted(n, "image")} will be learned as a new class.`, "Learn");
}

async function offerClasses(classes, found, to) {
  const known = new Set(to.known().map((each) => String(each.label)));
  const total = [...classes.values()].reduce((sum, files) => sum + files.length, 0);
  const rows = [...classes].map(([label, files]) =>
    el("li", {}, el("span", { dir: "auto" }, label), el("span", { class: "muted" }, `${counted(files.length, "image")}${known.has(label) ? "" : ", new class"}`)),
  );
  const body = [el("ul", { class: "listing", tabindex: "0", "aria-label": "Classes" }, ...rows)];
  if (found.others) body.push(`Left out: ${counted(found.others, "file")} of other kinds.`);
  const title = `Learn ${counted(total, "image")} as ${counted(classes.size, "class", "classes")}?`;
  const buttons = [["", "Cancel"], ["ask", "Only predict them"], ["learn", "Learn", "main"]];
  const choice = await ask(title, body, known.size ? buttons : [buttons[0], buttons[2]]);
  if (choice === "learn") to.teachClasses(classes);
  if (choice === "ask") to.ask([...classes.values()].flat());
}

/** Let the person choose files, or take a photo where `input` says so. */
export function pick(input, chosen) {
  input.onchange = () => {
    const files = [...input.files];
    input.value = "";
    if (files.length) chosen(files);
  };
  input.click();
}
