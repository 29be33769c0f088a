// A worker with one action: text.outline gives the headings of a Markdown file. In this folder:
//
//     npm install --no-save typescript@5.9.3 && npx tsc
//     STEPWELL_SERVER=http://127.0.0.1:8010 STEPWELL_API_KEY=… node dist/examples/worker-typescript/worker.js
import { readFile } from "node:fs/promises";
import { Worker, fail } from "../../clients/typescript/stepwell-worker.js";

const worker = new Worker();

worker.action<{ path: string; depth: number }>(
  "text.outline",
  {
    summary: "Gives the headings of a Markdown file.",
    params: {
      path: { type: "string", required: true, description: "The file; relative to the pipeline's folder." },
      depth: { type: "integer", default: 2, min: 1, max: 6, description: "How many levels." },
    },
  },
  async (task, { path, depth }) => {
    let text: string;
    try {
      text = await readFile(path.startsWith("/") ? path : `${task.dir ?? "."}/${path}`, "utf8");
    } catch (e) {
      throw fail(String(e), "not_found"); // another attempt will not help
    }
    const headings = [...text.matchAll(/^(#{1,6}) +(.+)$/gm)].map(([, marks, title]) => ({ level: marks!.length, title: title!.trim() }));
    task.log("read the headings", { count: headings.length });
    return { headings: headings.filter((h) => h.level <= depth) };
  },
);

await worker.run();
