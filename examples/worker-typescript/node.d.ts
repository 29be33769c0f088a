// What the example uses of Node. A project of your own has @types/node instead.
declare module "node:fs/promises" {
  export function readFile(path: string, encoding: "utf8"): Promise<string>;
}
