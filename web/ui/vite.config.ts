import react from "@vitejs/plugin-react"
import { defineConfig } from "vitest/config"

// Names without hashes: the built files are committed, and freshness comes from their ETags. `base: "./"` lets the page live below
// any path.
export default defineConfig({
  base: "./",
  plugins: [react()],
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
