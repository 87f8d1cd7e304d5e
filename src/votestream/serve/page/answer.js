// An answer in words: what it looks like, how sure that is, and why.

import { announce } from "./announce.js";
import { cannotKnow } from "./certainty.js";
import { $, chance, clipped, svg, tell } from "./dom.js";

const MOST_TASKS = 4;
const ROW = 30; // height of a task in the picture of the vote
let headline = null; // the label in large letters
let rival = null; // one that has come once, and takes over if it comes again
let announced = "";

/** Show an answer, or nothing. `steady`: the headline changes when two answers in a row say so. */
export function showAnswer(answer, classes, steady = false) {
  $("answer").hidden = !answer;
  if (!answer) {
    headline = rival = null;
    announced = "";
    return;
  }
  const said = answer.unknown ? null : answer.label;
  if (steady && headline && said !== headline.said && rival?.said !== said) rival = { said };
  else headline = { said };
  if (said === headline.said) rival = null;
  write(answer, headline.said, classes);
  explain(answer);
}

/** Until the first answer comes. */
export function showLooking() {
  $("answer").hidden = false;
  $("why").hidden = true;
  $("answer").classList.remove("unknown");
  words("Looking …", "", "");
  $("answer-next").textContent = "";
}

function write(answer, said, classes) {
  const unsure = cannotKnow(answer, classes);
  $("answer").classList.toggle("unknown", said === null);
  if (said === null) {
    words("This is", "unknown", "");
    const next = document.body.matches(".copy") ? "" : " Teach a new class, or choose the right one.";
    $("answer-next").textContent = `Closest: ${answer.label}${unsure ? "" : ` ${chance(answer.confidence)}`}.${next}`;
    return once(`Unknown. Closest: ${answer.label}`);
  }
  if (unsure) {
    words("Perhaps", String(said), "");
    $("answer-next").textContent = unsure;
    return once(`Perhaps ${said}. ${unsure}`);
  }
  const shares = answer.probabilities;
  const share = shares.find((each) => each.label === said)?.probability ?? answer.confidence;
  words(share < 0.5 ? "Perhaps" : "It looks like", String(said), chance(share));
  const second = shares.find((each) => each.label !== said && each.probability >= 0.005);
  $("answer-next").textContent = second ? `Second: ${second.label} ${chance(second.probability)}` : "";
  once(`Looks like ${said}, ${chance(share)}`, String(said));
}

/** Not again while the answer stays the same. */
function once(sentence, about = sentence) {
  if (announced !== about) announce(sentence);
  announced = about;
}

function words(intro, label, share) {
  $("answer-intro").textContent = intro;
  $("answer-label").textContent = label;
  $("answer-share").textContent = share;
}

function explain(answer) {
  const tasks = answer.vote?.tasks ?? [];
  tell($("why-words"), tasks.length > 1 ? voteInWords(answer.vote) : (answer.words ?? ""));
  $("why").hidden = $("why-words").hidden;
  $("why-picture").toggleAttribute("hidden", tasks.length < 2);
  if (tasks.length > 1 && $("why").open) drawVote(answer.vote);
  $("why").ontoggle = () => {
    if ($("why").open && tasks.length > 1) drawVote(answer.vote);
  };
}

function voteInWords({ tasks, winner_task: winner }) {
  const named = tasks.map((task, number) => ({ ...task, number }));
  const first = named[winner];
  const second = named.filter((task) => task !== first).toSorted((a, b) => b.score - a.score)[0];
  return (
    `${taskName(first)} is ${chance(first.prior)} likely and nominates ${first.candidate} (${chance(first.within)} within it); ` +
    `${taskName(second)}, ${chance(second.prior)} likely, nominates ${second.candidate}.`
  );
}

/** Which task nominated whom: a line from each task to its candidate, as thick as the task is likely. */
function drawVote({ tasks, winner_task: winner }) {
  const picture = $("why-picture");
  const numbered = tasks.map((task, number) => ({ ...task, number }));
  const shown = numbered.toSorted((a, b) => b.score - a.score).slice(0, MOST_TASKS);
  const left = numbered.length - shown.length;
  const height = 24 + shown.length * ROW;
  picture.setAttribute("viewBox", `0 0 380 ${height + (left ? 16 : 0)}`);
  picture.setAttribute("aria-label", `The vote. ${taskName(numbered[winner])} wins with ${numbered[winner].candidate}.`);
  picture.replaceChildren(
    svg("text", { x: 0, y: 12, class: "head" }, "task, how likely it is"),
    svg("text", { x: 206, y: 12, class: "head" }, "candidate, share within the task"),
    ...shown.map((task, at) => nomination(task, 24 + (at + 0.5) * ROW, task.number === winner)),
    svg("text", { x: 0, y: height + 8, class: "head" }, left ? `and ${left} less likely` : ""),
  );
}

function nomination(task, y, wins) {
  return svg(
    "g",
    { class: wins ? "winner" : "" },
    svg("title", {}, `${taskName(task)}, ${chance(task.prior)} likely, nominates ${task.candidate}, ${chance(task.within)} within it`),
    svg("text", { x: 0, y: y + 4 }, clipped(taskName(task), 12)),
    svg("text", { x: 120, y: y + 4, "text-anchor": "end" }, chance(task.prior)),
    svg("line", { x1: 128, y1: y, x2: 188, y2: y, "stroke-width": 1 + 9 * task.prior }),
    svg("circle", { cx: 192, cy: y, r: wins ? 6 : 4 }),
    svg("text", { x: 206, y: y + 4 }, `${clipped(String(task.candidate), 18)} ${chance(task.within)}${wins ? "  ✓" : ""}`),
  );
}

const taskName = (task) => (task.task === null ? `task ${task.number + 1}` : String(task.task));
