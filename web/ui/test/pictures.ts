// Takes the pictures of the documentation, from a real server with a few executions: npm run pictures (PICTURES names another folder)
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { closeBrowser, open, unnamed } from "./browser"
import { mediaWorld } from "./pictures_world"
import { Server } from "./server"

const folder = process.env.PICTURES ?? "../../docs/pictures"

export async function main() {
  mkdirSync(folder, { recursive: true })
  const server = await new Server().start()
  try {
    const { stored, waiting } = await mediaWorld(server)
    const shots: [string, string, (page: import("playwright-core").Page) => Promise<unknown>][] = [
      ["ui-execution", `/executions/${waiting}?step=convert`, (p) => p.getByText("publish").first().waitFor()],
      ["ui-editor", `/pipelines/${stored}/edit?step=convert`, (p) => p.getByText("0 errors").waitFor()],
      ["ui-home", "/", (p) => p.getByText("Publish 8 clips?").first().waitFor()],
      ["ui-approvals", "/approvals", (p) => p.getByText("Publish 8 clips?").first().waitFor()],
    ]
    for (const [name, path, there] of shots) {
      const o = await open(server, path, { width: 1280, height: 800 })
      await there(o.page)
      await o.page.waitForLoadState("networkidle").catch(() => undefined)
      await unnamed(o.page)
      await o.page.screenshot({ path: join(folder, name + ".png") })
      await o.close()
    }
  } finally {
    await closeBrowser()
    await server.stop()
  }
}
