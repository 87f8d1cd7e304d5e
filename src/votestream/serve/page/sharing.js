// The model leaves the page: as a file, or as an address for a phone.

import * as api from "./api.js";
import { ask } from "./dialogs.js";
import { $, el } from "./dom.js";

export async function download(model) {
  const url = URL.createObjectURL(await api.modelFile());
  el("a", { href: url, download: `${model.name.replace(/\.safetensors$/, "")}.safetensors` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
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
