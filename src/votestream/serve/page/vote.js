// How the tasks of a voting learner voted, in words and as a picture.

import { $, chance, clipped, svg } from "./dom.js";

const MOST_TASKS = 4;
const ROW = 30; // height of a task in the picture

/** Shown for learners that vote, with more than one task to vote. */
export function showVote(vote) {
  const there = (vote?.tasks.length ?? 0) > 1;
  $("why-vote").hidden = !there;
  if (!there) return;
  $("vote-words").textContent = voteInWords(vote);
  drawVote(vote);
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
  const picture = $("vote-picture");
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
