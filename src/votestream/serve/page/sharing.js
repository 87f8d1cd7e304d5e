// The model leaves the page: as a file, or as an address for a phone.

import * as api from "./api.js";
import { ask } from "./dialogs.js";
import { $, el, size } from "./dom.js";

export async function download(model) {
  const exports = (model.exports ?? []).map((each) => [each.url, each.name]);
  const words = [
    `${model.name}: everything that was learned, ${size(model.bytes)} in memory. votestream, vs.load() and another votestream serve open it.`,
  ];
  const choice = await ask("Download the model", words, [["", "Cancel"], ...exports, ["file", "Download", "main"]]);
  if (choice === "file") saveBlob(await api.modelFile(), model.name.endsWith(".safetensors") ? model.name : `${model.name}.safetensors`);
  else if (choice) saveBlob(await api.exported(choice), choice.split("/").at(-1));
}

function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
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
