"use strict";
// Shows /openapi.json and sends requests. Everything is put in as text, never as HTML.
const make = (tag, attrs = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k === "on" ? Object.entries(v).forEach(([n, f]) => e.addEventListener(n, f)) : e.setAttribute(k, v);
  e.append(...children);
  return e;
};
let doc;
const resolve = (s) => (s && s.$ref ? doc.components.schemas[s.$ref.split("/").pop()] : s) || {};
const typeName = (s) => {
  if (!s) return "";
  if (s.$ref) return s.$ref.split("/").pop();
  const t = Array.isArray(s.type) ? s.type.join(" or ") : s.type || "any";
  return s.items ? `list of ${typeName(s.items)}` : t;
};
const sample = (schema, depth = 0) => {
  const s = resolve(schema);
  if (s.examples) return s.examples[0];
  if (s.default !== undefined) return s.default;
  if (s.enum) return s.enum[0];
  const t = Array.isArray(s.type) ? s.type[0] : s.type;
  if (depth > 4) return null;
  if (t === "object") {
    const out = {};
    for (const [k, v] of Object.entries(s.properties || {})) if ((s.required || []).includes(k) || depth === 0) out[k] = sample(v, depth + 1);
    return out;
  }
  return { string: "", integer: 0, number: 0, boolean: false, array: [] }[t] ?? null;
};
const schemaTable = (schema) => {
  const s = resolve(schema);
  const rows = Object.entries(s.properties || {}).map(([k, v]) => make("tr", {}, make("td", {}, make("code", {}, k)), make("td", {}, typeName(v) + ((s.required || []).includes(k) ? "" : ", optional")),
    make("td", {}, [v.description, v.enum && "one of " + v.enum.join(", ")].filter(Boolean).join(" "))));
  return rows.length ? make("table", {}, ...rows) : make("p", {}, typeName(schema));
};
const tryIt = (path, method, op) => {
  const inputs = {};
  const rows = (op.parameters || []).map((p) => {
    inputs[p.name] = make("input", { "aria-label": p.name, placeholder: p.schema && p.schema.default !== undefined ? String(p.schema.default) : "" });
    return make("tr", {}, make("td", {}, make("code", {}, p.name)), make("td", {}, `${p.in}, ${typeName(p.schema)}${p.required ? "" : ", optional"}`), make("td", {}, p.description || "", " ", inputs[p.name]));
  });
  const media = op.requestBody && op.requestBody.content["application/json"];
  const body = media && make("textarea", { "aria-label": "body", spellcheck: "false" });
  if (body) body.value = JSON.stringify(sample(media.schema), null, 2);
  const out = make("pre", { hidden: "" });
  const send = async () => {
    let url = path;
    const query = new URLSearchParams(), headers = {};
    for (const p of op.parameters || []) {
      const v = inputs[p.name].value;
      if (p.in === "path") url = url.replace(`{${p.name}}`, encodeURIComponent(v));
      else if (v !== "") p.in === "query" ? query.set(p.name, v) : (headers[p.name] = v);
    }
    const token = document.getElementById("token").value;
    if (token) headers.Authorization = "Bearer " + token;
    if (body) headers["Content-Type"] = "application/json";
    out.hidden = false;
    out.textContent = "…";
    try {
      const res = await fetch("." + url + (query.size ? "?" + query : ""), { method: method.toUpperCase(), headers, body: body && body.value !== "" ? body.value : undefined });
      const text = await res.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
      out.textContent = `${res.status} ${res.statusText}\n${shown}`;
    } catch (e) { out.textContent = String(e); }
  };
  const streaming = Object.values(op.responses).some((r) => r.content && r.content["text/event-stream"]) || op.responses["101"];
  return [make("table", {}, ...rows), ...(body ? [make("h4", {}, "Body"), schemaTable(media.schema), body] : []), ...(streaming ? [make("p", {}, "A stream: open it with a client.")] : [make("p", {}, make("button", { type: "button", on: { click: send } }, "Send")), out])];
};
const answers = (op) => Object.entries(op.responses).filter(([, r]) => !r.$ref).flatMap(([code, r]) => {
  const schema = Object.values(r.content || {})[0]?.schema;
  return [make("h4", {}, `${code} ${r.description || ""}`), ...(schema ? [schemaTable(schema)] : [])];
});
const show = () => {
  document.getElementById("about").textContent = doc.info.description;
  const main = document.getElementById("operations"), groups = {};
  main.replaceChildren();
  for (const [path, item] of Object.entries(doc.paths)) for (const method of ["get", "post", "put", "patch", "delete"]) {
    const op = item[method];
    if (op) (groups[op.tags?.[0] || "other"] ??= []).push([path, method, op]);
  }
  for (const [tag, list] of Object.entries(groups)) {
    const section = make("section", {}, make("h2", {}, tag));
    for (const [path, method, op] of list) {
      const d = make("details", { "data-text": `${path} ${op.summary} ${op["x-role"]} ${method}`.toLowerCase() },
        make("summary", {}, make("span", { class: "method " + method.toUpperCase() }, method.toUpperCase()), make("code", {}, path), " ", op.summary || "", make("span", { class: "role" }, op["x-role"] || "")));
      d.addEventListener("toggle", () => { if (d.open && d.children.length === 1) d.append(make("div", {}, make("p", {}, op.description || ""), ...tryIt(path, method, op), ...answers(op))); });
      section.append(d);
    }
    main.append(section);
  }
};
document.getElementById("auth").addEventListener("submit", (e) => e.preventDefault());
document.getElementById("find").addEventListener("input", (e) => {
  const word = e.target.value.toLowerCase();
  for (const d of document.querySelectorAll("details")) d.hidden = !d.dataset.text.includes(word);
});
fetch("openapi.json").then((r) => r.json()).then((d) => { doc = d; show(); }, (e) => { document.getElementById("about").textContent = "The description could not be read: " + e; });
