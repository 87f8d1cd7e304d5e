// Questions to the person at the page. One dialog, filled anew for each question.

import { $, el } from "./dom.js";

/**
 * Ask and wait. `buttons` is a list of [value, words, class]; Esc and the first button leave everything as it is.
 * Resolves to the value of the button, or null.
 */
export function ask(title, body, buttons) {
  const dialog = $("question");
  $("question-title").textContent = title;
  $("question-body").replaceChildren(...[body].flat().map((part) => (typeof part === "string" ? el("p", {}, part) : part)));
  $("question-buttons").replaceChildren(
    ...buttons.map(([value, words, kind = ""]) => el("button", { value, class: kind }, words)),
  );
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) =>
    dialog.addEventListener("close", () => done(dialog.returnValue || null), { once: true }),
  );
}

/** Ask for one line of text; null where nothing was given. */
export async function askText(title, body, words, type = "text") {
  const input = el("input", { type, "aria-label": title, autocomplete: "off" });
  const submit = el("button", { value: "yes", class: "out-of-sight", tabindex: "-1", "aria-hidden": "true" }, words);
  // Enter presses a form's first button: it must not be "Cancel".
  const answer = ask(title, [body, submit, input], [["", "Cancel"], ["yes", words, "main"]]);
  input.focus();
  return (await answer) === "yes" ? input.value.trim() || null : null;
}

export function show(dialog) {
  dialog.showModal();
  // A click beside the dialog closes it.
  dialog.onclick = (event) => {
    if (event.target === dialog) dialog.close();
  };
}
