// The menu of a class.

import { $ } from "./dom.js";

/** Open it below a button. `acts` is what each entry does, by its id; `enabled` is whether they can be done now. */
export function openMenu(button, acts, enabled) {
  const menu = $("class-menu");
  for (const [id, act] of Object.entries(acts)) {
    const entry = document.getElementById(id);
    entry.disabled = !enabled;
    entry.onclick = () => {
      menu.hidePopover();
      act();
    };
  }
  menu.onkeydown = moveFocus;
  menu.showPopover();
  const place = button.getBoundingClientRect();
  menu.style.top = `${Math.min(place.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
  menu.style.left = `${Math.max(8, place.right - menu.offsetWidth)}px`;
  menu.querySelector("button:enabled")?.focus();
}

function moveFocus(event) {
  const entries = [...$("class-menu").querySelectorAll("button:enabled")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  entries[(entries.indexOf(document.activeElement) + step + entries.length) % entries.length].focus();
}
