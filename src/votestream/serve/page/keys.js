// Number keys teach the class in that row, held for as long as they are held. U takes back the last lesson.

export function listenForKeys({ press, release, undo }) {
  let down = null;
  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || isBusy(event.target)) return;
    if (/^[1-9]$/.test(event.key)) {
      down = event.code;
      press(Number(event.key));
    } else if (event.key.toLowerCase() === "u") {
      undo();
    }
  });
  const up = (event) => {
    if (down === null || (event.code && event.code !== down)) return;
    down = null;
    release();
  };
  document.addEventListener("keyup", up);
  addEventListener("blur", up);
}

/** Someone types, or a question is open. */
const isBusy = (target) => target.matches("input, select, textarea") || document.querySelector("dialog[open]");
