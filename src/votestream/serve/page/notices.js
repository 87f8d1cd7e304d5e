// What stands above the page: server gone, getting ready, troubles, progress, and problems by file.

import { announce } from "./announce.js";
import { $, counted, el, tell } from "./dom.js";

const MOST_PROBLEMS = 200;
let problems = [];
let troubleTimer = 0;

export function setUp(queue) {
  $("work-stop").onclick = () => queue.stop();
  $("problems-close").onclick = () => {
    problems = [];
    $("problems").hidden = true;
  };
  queue.on("progress", () => progress(queue));
  queue.on("idle", () => ($("work").hidden = true));
  queue.on("problems", addProblems);
}

export function gone(is) {
  tell($("connection"), is ? "The server does not answer. Teaching waits, and the page tries again by itself. Everything that was counted is kept." : "");
}

export function state(model) {
  const name = model.backbone?.name ? ` (${model.backbone.name})` : "";
  const words = { loading: `Getting ready: the network${name} that turns images into features is being loaded.`, stopping: "The server is stopping." };
  tell($("loading"), words[model.state] ?? "");
  tell($("disk"), model.problem ?? "");
  copy(model.following);
}

/** Of a model that is taught elsewhere: where, and whether what is known here may be old. */
function copy(following) {
  document.body.classList.toggle("copy", Boolean(following));
  $("copy").hidden = !following;
  if (!following) return;
  $("copy-of").textContent = $("copy-of").href = following.writer;
  tell($("copy-old"), following.stale ? "It does not answer: this may be old." : "");
}

/** One sentence that goes away by itself. */
export function trouble(words) {
  clearTimeout(troubleTimer);
  tell($("trouble"), words);
  troubleTimer = setTimeout(() => tell($("trouble"), ""), 10_000);
}

/** Something is under way; no words: it is over. */
export const busy = (words) => tell($("busy"), words);

function progress(queue) {
  $("work").hidden = queue.total < 2;
  const verb = queue.kind === "predict" ? "Predicting" : "Learning";
  $("work-words").textContent = `${verb} ${counted(queue.total, "image")}: ${queue.done} done`;
  $("work-bar").max = queue.total;
  $("work-bar").value = queue.done;
}

export function addProblems(more) {
  problems.push(...more);
  $("problems").hidden = false;
  $("problems-title").textContent = `${counted(problems.length, "file")} could not be used; the rest is done.`;
  const shown = problems.slice(0, MOST_PROBLEMS);
  $("problems-list").replaceChildren(
    ...shown.map(({ file, problem }) => el("li", {}, el("span", { class: "file", dir: "auto" }, file), ` ${problem}`)),
  );
  announce($("problems-title").textContent);
}
