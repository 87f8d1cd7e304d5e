// The service's routes. A failed call is a Refused (the service said why) or a Gone (it did not answer).

import { pause } from "./dom.js";

export class Refused extends Error {
  constructor(status, message, problems, retryAfter) {
    super(message);
    Object.assign(this, { status, problems, retryAfter });
  }
}

export class Gone extends Error {}

const TOKEN = "votestream-token";
let token = takeToken();
let root = "v1/";
let onGone = () => {};

/** The token comes once in the address, behind #, which is never sent, and is then taken out of it. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(TOKEN);
}

export function setToken(given) {
  token = given;
  sessionStorage.setItem(TOKEN, given);
}

export const useModel = (name) => (root = `v1/models/${encodeURIComponent(name)}/`);
export const whenGone = (told) => (onGone = told);

async function request(path, { method = "GET", body, json, key, signal, limit = 120_000 } = {}) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (key) headers["Idempotency-Key"] = key;
  if (json !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(json);
  }
  const late = AbortSignal.timeout(limit);
  let response;
  try {
    const either = signal ? AbortSignal.any([signal, late]) : late;
    response = await fetch(path, { method, body, headers, signal: either, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    onGone();
    throw new Gone("The server does not answer.");
  }
  if (response.ok) return response;
  let told = {};
  try {
    told = await response.json();
  } catch {
    // A proxy's error page, or none: the status is all there is.
  }
  const words = told.error ?? `The server answered with status ${response.status}.`;
  throw new Refused(response.status, words, told.problems ?? [], Number(response.headers.get("Retry-After")) || 1);
}

async function answered(path, options) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch {
    onGone();
    throw new Gone("The server's answer broke off.");
  }
}

/** Again until the service has room or is back: for what must be done once and exactly once, by its key. */
async function patiently(path, options) {
  for (;;) {
    try {
      return await answered(path, options);
    } catch (error) {
      const wait = error instanceof Gone || (error instanceof Refused && (error.status === 429 || error.status === 503));
      if (!wait || options.signal?.aborted) throw error;
      await pause(1000 * (error.retryAfter ?? 1));
      if (options.signal?.aborted) throw error;
    }
  }
}

function formOf(files) {
  const form = new FormData();
  for (const { blob, name } of files) form.append("file", blob, name);
  return form;
}

const query = (values) => new URLSearchParams(values).toString();
const classPath = (label) => `${root}classes/${encodeURIComponent(label)}`;

export const models = () => answered("v1/models");
export const model = () => answered(`${root}model`, { limit: 20_000 });
export const learn = (label, files, key, signal) =>
  patiently(`${root}learn?${query({ label })}`, { method: "POST", body: formOf(files), key, signal });
/** A camera frame: not sent again, the next one is as good. */
export const learnFrame = (label, blob, key) =>
  answered(`${root}learn?${query({ label })}`, { method: "POST", body: blob, key });
export const predictFrame = (blob, top) =>
  answered(`${root}predict?${query({ top })}`, { method: "POST", body: blob, limit: 30_000 });
export const predict = (files, top, signal) =>
  patiently(`${root}predict?${query({ top })}`, { method: "POST", body: formOf(files), signal });
/** The first file is explained, the others are compared with it. */
export const explain = (files) => answered(`${root}explain`, { method: "POST", body: formOf(files), limit: 60_000 });
export const undo = (lesson, key) => patiently(`${root}undo`, { method: "POST", json: { lesson }, key });
export const rename = (label, to, merge, key) =>
  patiently(`${classPath(label)}/rename`, { method: "POST", json: { to, merge }, key });
export const forget = (label, key) => patiently(classPath(label), { method: "DELETE", key });
/** What is downloaded: "file", "onnx" or "page". Packing may take minutes. */
export const modelAs = async (kind) => (await request(`${root}model/${kind}`, { limit: 600_000 })).blob();
export const addresses = () => answered("v1/addresses");
export const qr = async () => (await request("v1/qr")).blob();

/** Read server-sent events until the stream ends; `heard` is called with every event, `alive` with every sign of life. */
export async function events(heard, alive, signal) {
  const response = await request(`${root}events`, { signal, limit: 2 ** 31 - 1 });
  alive();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value.replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const kind = lines.find((line) => line.startsWith("event:"))?.slice(6).trim();
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (data) heard(kind ?? "message", JSON.parse(data));
    }
  }
}
