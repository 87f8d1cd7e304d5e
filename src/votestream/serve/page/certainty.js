// Whether a percentage means anything yet. With one class, or a class of one image, it would always be near 100 %.

import { chance } from "./dom.js";

/** Why the answer's percentage says nothing, in a sentence; null where it does say something. */
export function cannotKnow(answer, classes) {
  if (classes.length === 1) {
    return `It cannot know yet: ${classes[0].label} is the only class so far. Add images of a second one.`;
  }
  const [first, second] = answer.probabilities;
  const single = [first, second].find((each) => each && countOf(each.label, classes) === 1);
  if (single) return `It cannot know yet how sure this is: ${single.label} has one image. Add more.`;
  return answer.confidence === null ? "It cannot know yet how sure this is. Add more images." : null;
}

/** What was predicted before an image was learned. While there was one class, it could be nothing else. */
export const guessed = ({ label, confidence }) => (confidence === 1 ? String(label) : `${label} ${chance(confidence)}`);

const countOf = (label, classes) => classes.find((each) => each.label === label)?.count;
