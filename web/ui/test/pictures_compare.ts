// Compares pictures in a page: nothing but a browser is needed to read and write them.
import type { Page } from "playwright-core"

/** How far a colour may be off before a pixel counts as another one, of 255: those that are stored have five bits or fewer. */
const off = 32
/** A picture is another one if so many of its pixels are, or so many within one tile of 32 × 32. */
const most = { share: 0.001, tile: 12 }

export interface Difference { pixels: number; tiles: { x: number; y: number; pixels: number }[]; picture: Buffer }

/** packed is a picture as it is stored: WebP without loss, of few colours, which keeps it small. */
export async function packed(page: Page, png: Buffer): Promise<Buffer> {
  const url = await page.evaluate(async (src) => {
    const bitmap = await createImageBitmap(await (await fetch(src)).blob())
    const canvas = Object.assign(document.createElement("canvas"), { width: bitmap.width, height: bitmap.height })
    const g = canvas.getContext("2d", { willReadFrequently: true })!
    g.drawImage(bitmap, 0, 0)
    const image = g.getImageData(0, 0, canvas.width, canvas.height)
    const plain = image.data.slice()
    for (const bits of [5, 4, 3]) { // of at most 256 colours if it can be had: such a picture is a tenth of another
      const colours = new Set<number>()
      for (let i = 0; i < plain.length; i += 4) {
        let colour = 0
        for (let c = 0; c < 3; c++) {
          const kept = plain[i + c]! >> (8 - bits)
          image.data[i + c] = (kept * 255) / ((1 << bits) - 1)
          colour = (colour << 8) | kept
        }
        colours.add(colour)
      }
      if (colours.size <= 256) break
    }
    g.putImageData(image, 0, 0)
    return canvas.toDataURL("image/webp", 1)
  }, `data:image/png;base64,${png.toString("base64")}`)
  return Buffer.from(url.slice(url.indexOf(",") + 1), "base64")
}

/** different says where a picture is another one than that which is stored, and shows it; undefined if it is the same. */
export async function different(page: Page, stored: Buffer, png: Buffer): Promise<Difference | undefined> {
  const found = await page.evaluate(async ([a, b, off]) => {
    const read = async (src: string) => {
      const bitmap = await createImageBitmap(await (await fetch(src)).blob())
      const canvas = Object.assign(document.createElement("canvas"), { width: bitmap.width, height: bitmap.height })
      const g = canvas.getContext("2d", { willReadFrequently: true })!
      g.drawImage(bitmap, 0, 0)
      return { canvas, g, data: g.getImageData(0, 0, canvas.width, canvas.height) }
    }
    const [old, now] = [await read(a), await read(b)]
    const [w, h] = [now.canvas.width, now.canvas.height]
    if (old.canvas.width !== w || old.canvas.height !== h) return { pixels: w * h, tiles: [{ x: 0, y: 0, pixels: w * h }], url: b }
    const [o, n] = [old.data.data, now.data.data]
    const tiles = new Map<number, number>()
    let pixels = 0
    const across = Math.ceil(w / 32)
    for (let i = 0, p = 0; p < w * h; i += 4, p++) {
      if (Math.abs(o[i]! - n[i]!) <= off && Math.abs(o[i + 1]! - n[i + 1]!) <= off && Math.abs(o[i + 2]! - n[i + 2]!) <= off) {
        for (let c = 0; c < 3; c++) n[i + c] = 170 + n[i + c]! / 3 // what is the same is pale
        continue
      }
      pixels++
      const tile = Math.floor(Math.floor(p / w) / 32) * across + Math.floor((p % w) / 32)
      tiles.set(tile, (tiles.get(tile) ?? 0) + 1)
      n.set([230, 0, 60], i)
    }
    now.g.putImageData(now.data, 0, 0)
    return { pixels, tiles: [...tiles].map(([t, count]) => ({ x: (t % across) * 32, y: Math.floor(t / across) * 32, pixels: count })), url: pixels ? now.canvas.toDataURL("image/png") : "" }
  }, [`data:image/webp;base64,${stored.toString("base64")}`, `data:image/png;base64,${png.toString("base64")}`, off] as const)
  const tiles = found.tiles.sort((x, y) => y.pixels - x.pixels)
  if (found.pixels <= most.share * 1440 * 900 && (tiles[0]?.pixels ?? 0) <= most.tile) return undefined
  return { pixels: found.pixels, tiles, picture: Buffer.from(found.url.slice(found.url.indexOf(",") + 1), "base64") }
}
