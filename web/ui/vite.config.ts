import react from "@vitejs/plugin-react"
import { readFileSync } from "node:fs"
import type { Plugin } from "vite"
import { defineConfig } from "vitest/config"

// routes writes routes.json: for each screen's path, in their order, the files that its code needs beside those of the first page. The
// server names them in the page it gives, so that they come with the first ones instead of after them.
const routes: Plugin = {
  name: "stepwell-routes",
  apply: "build",
  enforce: "post",
  generateBundle(_, bundle) {
    const chunks = Object.values(bundle).filter((c) => c.type === "chunk")
    const behind = (file: string, found: Set<string>): Set<string> => {
      const c = bundle[file]
      if (c?.type !== "chunk" || found.has(file)) return found
      found.add(file)
      for (const css of c.viteMetadata?.importedCss ?? []) found.add(css)
      for (const next of c.imports) behind(next, found)
      return found
    }
    const first = behind(chunks.find((c) => c.isEntry)!.fileName, new Set())
    const screens = [...readFileSync("src/screens/screens.ts", "utf8").matchAll(/\{ path: "([^"]+)".*?(?:asks: (\[[^\]]*\]), )?(?:tabAsks: (\{.*?\}), )?load: .* import\("\.([^"]+)"\)/g)]
    const list = screens.flatMap(([, path, asks, more, module]) => {
      const chunk = chunks.find((c) => c.facadeModuleId?.endsWith(`/src/screens${module}.tsx`))
      if (!chunk) throw new Error(`no chunk is made of the screen ${module} of ${path}`)
      const row = { path, files: [...behind(chunk.fileName, new Set())].filter((f) => !first.has(f)), asks: ["me", "approvals?limit=200", ...(JSON.parse(asks ?? "[]") as string[])] }
      const tabs = Object.entries(JSON.parse(more ?? "{}") as Record<string, string[]>)
      return [...tabs.map(([tab, also]) => ({ ...row, path: path!.replace(":tab?", tab), asks: [...row.asks, ...also] })), row]
    })
    if (list.length === 0) throw new Error("src/screens/screens.ts names no screen")
    this.emitFile({ type: "asset", fileName: "routes.json", source: JSON.stringify(list) })
  },
}

// Names without hashes: the built files are committed, and freshness comes from their ETags. `base: "./"` lets the page live below
// any path.
export default defineConfig({
  base: "./",
  plugins: [react(), routes],
  build: {
    outDir: process.env.UI_OUT ?? "out",
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      output: {
        entryFileNames: "assets/app.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
        // Few files for the first page: each costs a request and a compilation of its own.
        codeSplitting: {
          groups: [
            { name: "base", test: /node_modules\/(react|react-dom|scheduler|use-sync-external-store|wouter|regexparam|openapi-fetch|@tanstack\/(query-core|react-query|virtual-core|react-virtual))\/|vite\/preload-helper|src\/(parts|api)\/.*\.tsx?$|src\/field\/(columns|gestures|paint|pick|raster|view)\.tsx?$|src\/(format|keys|me|states|url|screens\/(screens|approvals\/decide|execution\/(ask|flow|follow|Linked)|pipelines\/Text|run\/names)|document\/highlight)\.tsx?$/ },
          ],
        },
      },
    },
  },
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/[name].js" } } },
  server: { proxy: { "/api": { target: process.env.STEPWELL ?? "http://127.0.0.1:8010", ws: true } } },
  test: {
    projects: [
      { extends: true, test: { name: "pure", include: ["src/**/*.test.ts"], environment: "node" } },
      {
        extends: true,
        test: { name: "browser", include: ["test/**/*.test.ts"], environment: "node", testTimeout: 240_000, hookTimeout: 120_000, fileParallelism: false, expect: { poll: { timeout: 60_000 } } },
      },
    ],
  },
})
