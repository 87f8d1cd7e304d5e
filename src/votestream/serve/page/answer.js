// An answer in words: what it looks like, and how sure that is.

import { announce } from "./announce.js";
import { cannotKnow } from "./certainty.js";
import { $, chance } from "./dom.js";

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
}

/** Until the first answer comes. */
export function showWaiting() {
  $("answer").hidden = false;
  $("answer").classList.remove("unknown");
  words("Predicting …", "", "");
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
  const share = said === answer.label ? answer.confidence : shares.find((each) => each.label === said)?.probability ?? 0;
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
