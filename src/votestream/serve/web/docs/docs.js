// The routes of openapi.json, each with a form that sends a request and shows what came back.

const token = document.getElementById("token");
token.value = sessionStorage.getItem("votestream-token") ?? "";
token.addEventListener("change", () => sessionStorage.setItem("votestream-token", token.value));

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function field(parameter) {
  const { schema = {}, name, required } = parameter;
  const words = element("span", { class: required && "required" }, `${name}  (${parameter.in})`);
  const input = element("input", { name, required, "data-in": parameter.in, placeholder: schema.default ?? "" });
  return element("label", {}, words, parameter.description ? element("small", {}, parameter.description) : null, input);
}

function example(schema) {
  const types = [schema?.type].flat();
  if (types.includes("object")) {
    return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, one]) => [key, example(one)]));
  }
  if (types.includes("array")) return schema.items ? [example(schema.items)] : [];
  if (types.includes("null")) return null;
  return { string: "", boolean: false, integer: 1, number: 0 }[types[0]] ?? null;
}

function bodyFields(body) {
  const json = body?.content?.["application/json"];
  if (json) {
    const text = JSON.stringify(example(json.schema));
    return [element("label", {}, "Body (JSON)", element("textarea", { name: "json-body" }, text))];
  }
  if (body) return [element("label", {}, "Images", element("input", { type: "file", name: "files", multiple: true, accept: "image/*" }))];
  return [];
}

function request(form, path, method) {
  const query = new URLSearchParams();
  const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  for (const input of form.querySelectorAll("[data-in]")) {
    const { in: place } = input.dataset;
    if (place === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value && place === "query") query.append(input.name, input.value);
    else if (input.value && place === "header") headers[input.name] = input.value;
  }
  let body;
  const json = form.querySelector("[name=json-body]");
  const files = form.querySelector("[name=files]");
  if (json) {
    body = json.value;
    headers["Content-Type"] = "application/json";
  } else if (files) {
    body = new FormData();
    for (const file of files.files) body.append("file", file);
  }
  return [`${path}${query.size ? `?${query}` : ""}`, { method: method.toUpperCase(), headers, body }];
}

async function send(form, shown, path, method) {
  const [address, options] = request(form, path, method);
  shown.hidden = false;
  shown.textContent = "…";
  const begun = performance.now();
  try {
    const answer = await fetch(address, options);
    const time = `${Math.round(performance.now() - begun)} ms`;
    const kind = answer.headers.get("content-type") ?? "";
    let text;
    if (kind.includes("json")) text = JSON.stringify(await answer.json(), null, 2);
    else if (kind.startsWith("text/event-stream")) { text = "A stream of events: read it with curl -N."; answer.body.cancel(); }
    else if (kind.startsWith("text/")) text = await answer.text();
    else text = `${(await answer.blob()).size} bytes of ${kind}`;
    shown.textContent = `${answer.status}  ${time}\n${text}`;
  } catch (problem) {
    shown.textContent = `No answer: ${problem.message}`;
  }
}

function route(path, method, about) {
  const shown = element("pre", { hidden: true, "aria-live": "polite" });
  const form = element("form", {},
    about.description ? element("p", {}, about.description) : null,
    ...(about.parameters ?? []).map(field), ...bodyFields(about.requestBody), element("button", {}, "Send"), shown);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, shown, path, method);
  });
  return element("details", {},
    element("summary", {}, element("span", { class: "method" }, method.toUpperCase()), element("code", {}, path), ` ${about.summary ?? ""}`),
    form);
}

const routes = document.getElementById("routes");
try {
  const api = await (await fetch("/openapi.json")).json();
  document.getElementById("version").textContent = api.info.version;
  document.getElementById("about").textContent = api.info.description ?? "";
  routes.replaceChildren(...Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => route(path, method, about))));
} catch (problem) {
  routes.replaceChildren(element("p", {}, `The list of routes could not be read: ${problem.message}`));
}
