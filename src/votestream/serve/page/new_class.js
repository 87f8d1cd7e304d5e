// The form of a new class: its name, and the button that teaches it.

import { announce } from "./announce.js";
import { $, tell } from "./dom.js";
import { makeHoldable } from "./holding.js";

/** `on` has `holds()`, `press(name)`, `release()` and `tap(name)`, as of a class's own button. */
export function setUpNewClass(on) {
  const field = $("new-name");
  field.oninput = () => missing(false);
  makeHoldable($("new-button"), {
    holds: on.holds,
    press: () => withName(on.press),
    release: () => {
      if (on.release()) field.value = "";
    },
    tap: () =>
      withName((name) => {
        field.value = "";
        on.tap(name);
      }),
  });
}

/** `words` is what the button says. */
export function showNewClass(words, placeholder, enabled) {
  $("new-button").textContent = words;
  $("new-button").disabled = $("new-name").disabled = !enabled;
  $("new-name").placeholder = placeholder;
}

function withName(act) {
  const name = $("new-name").value.trim();
  missing(!name);
  if (name) act(name);
  else $("new-name").focus();
}

function missing(is) {
  const words = is ? "Type the name of the class first." : "";
  tell($("name-missing"), words);
  $("new-name").toggleAttribute("aria-invalid", is);
  if (is) announce(words);
}
