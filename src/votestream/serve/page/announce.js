// What a screen reader is told: the newest message, at most one a second.

import { $ } from "./dom.js";

const GAP = 1000;
let last = 0;
let waiting = null;
let timer = 0;

export function announce(words) {
  waiting = words;
  if (timer) return;
  timer = setTimeout(speak, Math.max(0, last + GAP - Date.now()));
}

function speak() {
  timer = 0;
  last = Date.now();
  $("announcer").textContent = waiting;
}
