// What was dropped, pasted or chosen: single files, and folders with the classes in them.

const KINDS = /\.(jpe?g|jfif|png|webp|bmp|gif|tiff?|avif|hei[cf]|p[gp]m)$/i;
const LITTER = /^(\.|thumbs\.db$|ehthumbs\.db$|desktop\.ini$|icon\r$|__macosx$|@eadir$|\$recycle\.bin$)/i;

const looksLikeImage = (file) => KINDS.test(file.name) || file.type.startsWith("image/");

/**
 * Everything in a drop or paste: `files` that lay there by themselves, `folders` as {name, files, folders}, and
 * `others`, how many files in folders are no images. Must be called while the event is handled.
 */
export async function dropped(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  // Entries must be taken before the first await: the list is emptied when the event is over.
  const taken = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  const found = { files: [], folders: [], others: 0 };
  for (const { entry, file } of taken) {
    if (entry?.isDirectory) found.folders.push(await folderOf(entry, found));
    else if (file) found.files.push(file);
  }
  return found;
}

async function folderOf(entry, found) {
  const folder = { name: entry.name, files: [], folders: [] };
  for (const child of await children(entry)) {
    if (LITTER.test(child.name)) continue;
    if (child.isDirectory) {
      folder.folders.push(await folderOf(child, found));
      continue;
    }
    const file = await new Promise((done, failed) => child.file(done, failed));
    if (looksLikeImage(file)) folder.files.push(file);
    else found.others += 1;
  }
  return folder;
}

/** `readEntries` gives a hundred at a time, until it gives none. */
async function children(entry) {
  const reader = entry.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return all.sort((a, b) => a.name.localeCompare(b.name));
    all.push(...some);
  }
}

export const everyFile = (folder) => [...folder.files, ...folder.folders.flatMap(everyFile)];

/** The classes in folders: a folder with images is one, a folder of folders holds them. Label -> files. */
export function classesIn(folders, classes = new Map()) {
  for (const folder of folders) {
    if (folder.files.length) {
      const label = folder.name.normalize("NFC");
      classes.set(label, [...(classes.get(label) ?? []), ...everyFile(folder)]);
    } else {
      classesIn(folder.folders, classes);
    }
  }
  return classes;
}
