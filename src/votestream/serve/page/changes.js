// Changes to what was learned: rename, merge, forget, undo. What cannot be taken back is asked for.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { ask } from "./dialogs.js";
import { counted, randomKey } from "./dom.js";
import { trouble } from "./notices.js";

export async function rename(label, to, classes) {
  const other = classes.find((each) => String(each.label) === to);
  if (other) {
    const title = `Merge ${label} into ${to}?`;
    const words = `There is a class called ${to} already${imagesOf(other)}. Both become one class, ${to}.`;
    if ((await ask(title, words, [["", "Cancel"], ["merge", "Merge", "main"]])) !== "merge") return;
  }
  await attempt(async () => {
    await api.rename(label, to, Boolean(other), randomKey());
    announce(other ? `Merged ${label} into ${to}` : `Renamed ${label} to ${to}`);
  });
}

export async function forget({ label, count }) {
  const words = [
    `What was learned of ${label}${imagesOf({ count })} is removed from the model.`,
    "Undo brings it back as long as this is among the last lessons. After that it can only be taught again: images are not kept.",
  ];
  if ((await ask(`Forget ${label}?`, words, [["", "Cancel"], ["forget", "Forget", "danger"]])) !== "forget") return;
  await attempt(async () => {
    await api.forget(label, randomKey());
    announce(`Forgot ${label}`);
  });
}

/** Whether it could be taken back. */
export async function undo(each, done) {
  return attempt(async () => {
    try {
      const told = await api.undo(each?.lesson ?? null, randomKey());
      announce(`Taken back: ${told.undone.label ?? "the last lesson"}`);
      done(told.undone);
    } catch (error) {
      if (each && error.message.includes("taken back already")) done({ lesson: each.lesson }); // on another page
      throw error;
    }
  });
}

const imagesOf = ({ count }) => (count === null ? "" : ` (${counted(count, "image")})`);

async function attempt(change) {
  try {
    await change();
    return true;
  } catch (error) {
    trouble(error.message);
    return false;
  }
}
