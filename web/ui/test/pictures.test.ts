// Twenty-two screens, light and dark, look as in test/pictures. After a change that is meant: PICTURES_TAKE=1 takes them again, and
// whoever reviews the change looks at what has become of them. PICTURES_TAKE=changed takes only those that have changed, from the
// answers that are recorded: that is enough as long as the pages ask for nothing else.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { different, packed } from "./pictures_compare"
import { Camera, folder, keep, kept, type Recording } from "./pictures_taken"
import { screensOf } from "./pictures_world"
import { Server } from "./server"

const taking = process.env.PICTURES_TAKE === "1"
const mending = process.env.PICTURES_TAKE === "changed"
const themes = ["light", "dark"] as const

test("screens look as they did", async (context) => {
  const server = await new Server().start()
  let camera: Camera | undefined
  try {
    const r: Recording | undefined = taking ? { chromium: "", now: 0, screens: await screensOf(server), answers: {} } : kept()
    if (!r) throw new Error("there are no pictures yet: PICTURES_TAKE=1 takes them")
    if (taking) r.now = Date.now()
    camera = await Camera.of(server, r, taking)
    const major = camera.browser.version().split(".")[0]!
    if (taking) r.chromium = major
    else if (major !== r.chromium) {
      const why = `pictures are of Chromium ${r.chromium}, this is ${major}: they are not compared`
      console.log(why)
      context.skip(why)
    }
    const desk = await camera.browser.newPage()
    if (taking) for (const old of readdirSync(folder)) if (old.endsWith(".webp")) rmSync(new URL(old, folder))
    const wrong: string[] = []
    let out = ""
    for (const [name, path] of Object.entries(r.screens)) {
      await camera.show(path)
      for (const theme of themes) {
        const file = new URL(`${name}-${theme}.webp`, folder)
        const now = await camera.take(theme)
        if (taking) writeFileSync(file, await packed(desk, now))
        const found = existsSync(file) ? await different(desk, readFileSync(file), now) : undefined
        if (!found && existsSync(file)) continue
        if (mending) {
          writeFileSync(file, await packed(desk, now))
          continue
        }
        out ||= mkdtempSync(join(tmpdir(), "stepwell-pictures-"))
        writeFileSync(join(out, `${name}-${theme}-now.png`), now)
        if (found) writeFileSync(join(out, `${name}-${theme}-difference.png`), found.picture)
        wrong.push(`${name}, ${theme}: ${found ? `${found.pixels} pixels are others, most of them at ${found.tiles.slice(0, 3).map((t) => `${t.x},${t.y}`).join(" and ")}` : "there is no picture of it"}; see ${out}`)
      }
    }
    if (taking) keep(r)
    expect([...camera.missing], "asked for, and not in the recording: PICTURES_TAKE=1 records again").toEqual([])
    expect(wrong, "if it is meant, PICTURES_TAKE=changed takes these pictures again").toEqual([])
  } finally {
    await camera?.close()
    await server.stop()
  }
})
