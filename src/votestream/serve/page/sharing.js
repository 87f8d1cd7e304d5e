// The model leaves the page: as a file, or as an address for a phone.

import * as api from "./api.js";
import { ask } from "./dialogs.js";
import { $, el } from "./dom.js";
import { busy, trouble } from "./notices.js";

const KINDS = [
  ["file", "Model file", "safetensors", "for VoteStream: load it, serve it, teach it on"],
  ["onnx", "ONNX", "onnx", "for ONNX Runtime, in many languages: it predicts and does not learn"],
  ["page", "A page that works offline", "html", "one HTML file that predicts in a browser, with no server"],
];

/** Ask which kind of file, and download it. */
export async function download(model) {
  const choices = KINDS.map(([value, name, ending, about]) =>
    el("button", { value, class: "choice" }, `${name} (.${ending})`, el("span", { class: "muted small" }, about)),
  );
  const chosen = await ask("Download the model", choices, [["", "Cancel"]]);
  if (!chosen) return;
  const ending = KINDS.find(([value]) => value === chosen)[2];
  busy("The file is being made …");
  try {
    const url = URL.createObjectURL(await api.modelAs(chosen));
    el("a", { href: url, download: `${model.name.replace(/\.safetensors$/, "")}.${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    trouble(error.message);
  }
  busy("");
}

/** The button is there where a phone can reach the server. */
export async function offerPhone() {
  const { addresses = [] } = await api.addresses();
  $("phone-button").hidden = !addresses.length;
  $("phone-button").onclick = () => showPhone(addresses);
}

async function showPhone(addresses) {
  const url = URL.createObjectURL(await api.qr());
  const image = el("img", { class: "qr", src: url, alt: `QR code of ${addresses[0]}` });
  const words = ["Point your phone's camera at the code. The phone must be in the same network.", image, el("p", { class: "address" }, addresses[0])];
  if (!addresses[0].startsWith("https:")) {
    words.push("Over plain http, phones allow taking photos but no live camera: browsers ask for https for that (--certificate and --key).");
  }
  await ask("Open on your phone", words, [["", "Close"]]);
  URL.revokeObjectURL(url);
}
