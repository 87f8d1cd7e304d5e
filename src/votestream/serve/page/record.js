// The track record: how the model did on every image just before it learned it.

import { $, clipped, counted, el, percent, svg } from "./dom.js";
import { show } from "./dialogs.js";

const MOST_MATRIX = 12;

const tested = (track) => (track?.over_time ?? []).filter((period) => period.score.tested);

/** The line in the header: right lately, and the curve beside it. */
export function showSpark(track) {
  const lately = track?.lately;
  $("record-button").hidden = !lately?.tested;
  if (!lately?.tested) return;
  $("lately").textContent = `right lately: ${percent(lately.accuracy)}`;
  const periods = tested(track);
  $("spark").toggleAttribute("hidden", periods.length < 3);
  $("spark").replaceChildren(curve(periods, 88, 24, 2));
}

function curve(periods, width, height, pad) {
  const last = periods.at(-1)?.last ?? 1;
  const x = (period) => pad + ((period.first + period.last) / 2 / last) * (width - 2 * pad);
  const y = (share) => pad + (1 - share) * (height - 2 * pad);
  const points = periods.map((period) => `${x(period).toFixed(1)},${y(period.score.accuracy).toFixed(1)}`);
  return svg("polyline", { points: points.join(" "), class: "curve" });
}

export function openRecord(model) {
  const track = model.track;
  const parts = [
    el("p", {}, "Every image is a test before it is learned: what would it have been called? First images of a new class do not count."),
    numbers(track),
    tested(track).length > 1 ? chart(track) : null,
    ...confusions(track, model.classes),
  ];
  $("record-body").replaceChildren(...parts.filter(Boolean));
  show($("record"));
}

function numbers(track) {
  const score = (each) =>
    each.tested ? [percent(each.accuracy), `${percent(each.low)} to ${percent(each.high)}, ${counted(each.tested, "test")}`] : ["–", "no test yet"];
  const figure = (name, [value, more]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("span", { class: "muted small" }, more)));
  const noticed = track.unknown.met ? [`${track.unknown.above} of ${track.unknown.met}`, "called unknown, as they should"] : ["–", "none yet"];
  return el(
    "dl",
    { class: "figures" },
    figure("Right lately", score(track.lately)),
    figure("Right so far", score(track.so_far)),
    figure("First images of new classes", noticed),
  );
}

/** Accuracy by period with its 95 % interval. */
function chart(track) {
  const [width, height, left, bottom] = [640, 190, 44, 24];
  const periods = tested(track);
  const last = periods.at(-1).last;
  const x = (period) => left + ((period.first + period.last) / 2 / last) * (width - left - 8);
  const y = (share) => 8 + (1 - share) * (height - bottom - 8);
  const line = (name) => periods.map((period) => `${x(period).toFixed(1)},${y(period.score[name]).toFixed(1)}`);
  const words = `Accuracy from ${percent(periods[0].score.accuracy)} at first to ${percent(periods.at(-1).score.accuracy)} lately`;
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words },
    ...[0, 0.5, 1].flatMap((share) => [
      svg("line", { x1: left, x2: width - 8, y1: y(share), y2: y(share), class: "grid" }),
      svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
    ]),
    svg("polygon", { points: [...line("low"), ...line("high").reverse()].join(" "), class: "band" }),
    svg("polyline", { points: line("accuracy").join(" "), class: "curve" }),
    ...periods.map((period) => svg("circle", { cx: x(period), cy: y(period.score.accuracy), r: 2.5, class: "dot" })),
    svg("text", { x: left, y: height - 4 }, "first image"),
    svg("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, `image ${last.toLocaleString("en")}`),
  );
}

/** Rows are what it was, columns what it was taken for. Only the most frequent mix-ups are kept by the model. */
function confusions(track, classes) {
  const pairs = track.confusions;
  if (!pairs.length) return [];
  const involved = new Set(pairs.flatMap((pair) => [pair.label, pair.taken_for]));
  const known = classes.filter((each) => involved.has(each.label)).slice(0, MOST_MATRIX);
  const times = (row, column) =>
    row === column ? row.right : (pairs.find((pair) => pair.label === row.label && pair.taken_for === column.label)?.times ?? 0);
  const cell = (row, column) => {
    const n = times(row, column);
    const node = el("td", { class: row === column ? "right" : "wrong" }, n ? String(n) : "");
    node.style.setProperty("--share", Math.min(1, n / (row.tested || 1)).toFixed(3));
    return node;
  };
  const name = (each) => el("span", { title: String(each.label), dir: "auto" }, clipped(String(each.label), 14));
  const table = el(
    "table",
    { class: "matrix" },
    el("caption", { class: "out-of-sight" }, "Rows: what it was. Columns: what it was taken for."),
    el("thead", {}, el("tr", {}, el("th", { class: "corner muted small" }, "was ↓ taken for →"), ...known.map((each) => el("th", { scope: "col" }, name(each))))),
    el("tbody", {}, ...known.map((row) => el("tr", {}, el("th", { scope: "row" }, name(row)), ...known.map((column) => cell(row, column))))),
  );
  const worst = pairs.slice(0, 3).map((pair) => `${pair.label} was taken for ${pair.taken_for} ${counted(pair.times, "time")}`);
  return [
    el("h3", {}, "What it mixes up"),
    el("p", { dir: "auto" }, `${worst.join("; ")}.`),
    el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Mix-ups" }, table),
    el("p", { class: "muted small" }, "The most frequent mix-ups are kept; an empty cell is rarer or never happened."),
  ];
}
