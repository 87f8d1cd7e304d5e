// A button that is held: with a finger, a mouse, Space or Enter. Where nothing is to be held it is a usual button.

/** `holds()` says whether it is to be held now; then `press` and `release` are called, and else `tap`. */
export function makeHoldable(button, { holds, press, release, tap }) {
  button.onpointerdown = (event) => {
    if (!holds() || event.button !== 0) return;
    button.setPointerCapture(event.pointerId);
    press();
  };
  button.onpointerup = button.onpointercancel = button.onlostpointercapture = button.onblur = release;
  button.oncontextmenu = (event) => {
    if (holds()) event.preventDefault(); // a long touch is a hold
  };
  button.onkeydown = button.onkeyup = (event) => {
    if (!holds() || (event.key !== " " && event.key !== "Enter")) return;
    event.preventDefault();
    if (event.type === "keyup") release();
    else if (!event.repeat) press();
  };
  button.onclick = (event) => {
    event.preventDefault();
    // While it is to be held, only a screen reader's click, or Enter in a form, comes without a pointer or a key.
    if (!holds() || event.detail === 0) tap();
  };
}
