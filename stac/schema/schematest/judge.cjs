// Judges by ajv and ajv-formats. Input: one JSON object; output: one JSON list.
//   {"formats": [["date-time", "2020-01-01T00:00:00Z"], …]}        → true, false, or null for a format that ajv does not have
//   {"schemas": "folder", "documents": ["path.json", {…}, …]}      → a list of problems for each STAC object
"use strict";
const fs = require("fs"), path = require("path");
const Ajv = require("ajv").default, addFormats = require("ajv-formats").default;
const input = JSON.parse(fs.readFileSync(0, "utf8"));

function formats(pairs) {
	const ajv = addFormats(new Ajv({ strict: false, logger: false }));
	const compiled = {};
	return pairs.map(([format, text]) => {
		if (!ajv.formats[format]) return null;
		compiled[format] ||= ajv.compile({ type: "string", format });
		return compiled[format](text);
	});
}

async function documents(folder, list) {
	const index = JSON.parse(fs.readFileSync(path.join(folder, "index.json"), "utf8"));
	const load = async (uri) => {
		const name = uri.replace(/#.*$/, "");
		const at = index[name] || name.replace(/^https?:\/\//, "");
		return JSON.parse(fs.readFileSync(path.join(folder, at), "utf8"));
	};
	const ajv = addFormats(new Ajv({ strict: false, logger: false, allErrors: false, validateSchema: false, unicodeRegExp: true, loadSchema: load }));
	const compiled = {};
	const get = async (uri) => (compiled[uri] ||= ajv.getSchema(uri) || ajv.compileAsync(await load(uri)));
	const core = (o) => {
		const kind = { Feature: "item", Collection: "collection", Catalog: "catalog" }[o.type];
		return kind && `https://schemas.stacspec.org/v${o.stac_version}/${kind}-spec/json-schema/${kind}.json`;
	};
	const results = [];
	for (const entry of list) {
		const object = typeof entry === "string" ? JSON.parse(fs.readFileSync(entry, "utf8")) : entry;
		const problems = [];
		const uri = core(object);
		if (!uri) problems.push(`type ${object.type} is none of STAC`);
		for (const u of uri ? [uri, ...(object.stac_extensions || [])] : []) {
			try {
				const check = await get(u);
				if (!check(object)) problems.push(`${u}: ${ajv.errorsText(check.errors).slice(0, 300)}`);
			} catch (e) {
				problems.push(`${u}: ${e.message}`);
			}
		}
		results.push(problems);
	}
	return results;
}

(async () => {
	const out = input.formats ? formats(input.formats) : await documents(input.schemas, input.documents);
	fs.writeFileSync(1, JSON.stringify(out));
})();
