// Small helpers for the page. Labels and file names are other people's text: they only ever become text nodes.

export const $ = (id) => document.getElementById(id);

/** An element with properties (`class`, `onclick`, `aria-label`, ...) and children; strings become text. */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Put words into a part of the page, or hide it where there are none. */
export function tell(node, words) {
  if (node.textContent !== words) node.textContent = words;
  node.hidden = !words;
}

/** Put nodes into a list in this order; one that has the focus keeps it. */
export function arrange(list, nodes) {
  if (nodes.length === list.children.length && nodes.every((node, at) => node === list.children[at])) return;
  const focused = document.activeElement;
  list.replaceChildren(...nodes);
  if (focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
}

export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** A share in whole percent; only what is really all or nothing is called 100 or 0. */
export function percent(share) {
  const whole = Math.round(share * 100);
  if (whole === 100 && share < 1) return "> 99 %";
  if (whole === 0 && share > 0) return "< 1 %";
  return `${whole} %`;
}

/** The probability of a class in whole percent. It comes rounded, and is never all. */
export const chance = (probability) => percent(Math.min(probability, 0.9999999));

export function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** A random text for requests that must not count twice. `randomUUID` is not there over plain http. */
export function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Something that tells others what happens to it. */
export class Emitter extends EventTarget {
  on(name, told) {
    this.addEventListener(name, (event) => told(event.detail));
  }

  fire(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
