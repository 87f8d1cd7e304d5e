// Number keys teach the class in that row, for as long as they are held. U takes back the newest change, Ctrl-A
// selects all images of the batch, ? opens the help.

export function listenForKeys({ press, release, undo, selectAll, help }) {
  let down = null;
  document.addEventListener("keydown", (event) => {
    const ctrl = event.ctrlKey || event.metaKey;
    if (ctrl && event.key.toLowerCase() === "a" && !isBusy(event.target) && selectAll()) return event.preventDefault();
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || isBusy(event.target)) return;
    if (/^[1-9]$/.test(event.key)) {
      down = event.code;
      press(Number(event.key));
    } else if (event.key.toLowerCase() === "u") {
      undo();
    } else if (event.key === "?") {
      help();
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
