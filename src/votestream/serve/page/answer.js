// An answer in words: what it looks like, how sure that is, and why.

import { announce } from "./announce.js";
import { $, clipped, percent, svg, tell } from "./dom.js";

const MOST_TASKS = 6;
let headline = null; // the label in large letters
let rival = null; // one that has come once, and takes over if it comes again

/** Show an answer, or nothing. `steady`: the headline changes when two answers in a row say so. */
export function showAnswer(answer, classes, steady = false) {
  $("answer").hidden = !answer;
  if (!answer) {
    headline = rival = null;
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
  const shares = answer.probabilities;
  const only = classes.length === 1;
  $("answer").classList.toggle("unknown", said === null);
  if (said === null) {
    words("This is", "unknown", "");
    const closest = only ? answer.label : `${answer.label} ${percent(answer.confidence)}`;
    $("answer-next").textContent = `Closest: ${closest}. Teach a new class, or pick the right one.`;
    announce(`Unknown. Closest: ${answer.label}`);
    return;
  }
  if (only) {
    words("It looks like", String(said), "");
    $("answer-next").textContent = "It is the only class so far. Teach a second one to make it a choice.";
    announce(`Looks like ${said}, the only class so far`);
    return;
  }
  const share = shares.find((each) => each.label === said)?.probability ?? answer.confidence;
  words(share < 0.5 ? "Perhaps" : "It looks like", String(said), percent(share));
  const second = shares.find((each) => each.label !== said && each.probability >= 0.005);
  $("answer-next").textContent = second ? `Second: ${second.label} ${percent(second.probability)}` : "";
  if ($("answer-label").dataset.told !== String(said)) announce(`Looks like ${said}, ${percent(share)}`);
  $("answer-label").dataset.told = String(said);
}

function words(intro, label, share) {
  $("answer-intro").textContent = intro;
  $("answer-label").textContent = label;
  $("answer-share").textContent = share;
}

function explain(answer) {
  $("why").hidden = !answer.words;
  tell($("why-words"), answer.words ?? "");
  const tasks = answer.vote?.tasks ?? [];
  $("why-picture").toggleAttribute("hidden", tasks.length < 2);
  if (tasks.length > 1 && $("why").open) drawVote(answer.vote);
  $("why").ontoggle = () => {
    if ($("why").open && tasks.length > 1) drawVote(answer.vote);
  };
}

/** Which task nominated whom: a line from each task to its candidate, as thick as the task is likely. */
function drawVote(vote) {
  const picture = $("why-picture");
  const numbered = vote.tasks.map((task, number) => ({ ...task, number }));
  const shown = numbered.toSorted((a, b) => b.score - a.score).slice(0, MOST_TASKS);
  const row = 30;
  const height = shown.length * row + 22;
  picture.setAttribute("viewBox", `0 0 420 ${height}`);
  const winner = numbered.find((task) => task.number === vote.winner_task);
  picture.setAttribute("aria-label", `The vote. ${winner ? `${taskName(winner)} wins with ${winner.candidate}.` : ""}`);
  picture.replaceChildren(
    svg("text", { x: 0, y: 12, class: "head" }, "task, how likely it is"),
    svg("text", { x: 228, y: 12, class: "head" }, "its candidate, share within the task"),
    ...shown.map((task, at) => nomination(task, 22 + at * row + row / 2, task === winner || task.number === vote.winner_task)),
  );
  const left = numbered.length - shown.length;
  if (left) picture.setAttribute("viewBox", `0 0 420 ${height + 16}`);
  if (left) picture.append(svg("text", { x: 0, y: height + 10, class: "head" }, `and ${left} less likely`));
}

function nomination(task, y, wins) {
  const from = { x: 0, y: y + 4 };
  return svg(
    "g",
    { class: wins ? "winner" : "" },
    svg("title", {}, `${taskName(task)} (${percent(task.prior)} likely) nominates ${task.candidate} (${percent(task.within)} within it)`),
    svg("text", from, clipped(taskName(task), 12)),
    svg("text", { x: 128, y: y + 4, "text-anchor": "end" }, percent(task.prior)),
    svg("line", { x1: 138, y1: y, x2: 208, y2: y, "stroke-width": 1 + 9 * task.prior }),
    svg("circle", { cx: 213, cy: y, r: wins ? 6 : 4 }),
    svg("text", { x: 228, y: y + 4 }, `${clipped(String(task.candidate), 18)} ${percent(task.within)}${wins ? "  ✓" : ""}`),
  );
}

const taskName = (task) => (task.task === null ? `task ${task.number + 1}` : String(task.task));
