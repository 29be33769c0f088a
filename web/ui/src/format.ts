// How values are written. Pure.

/** formatDuration writes seconds as a person would: 0.04 s, 3.2 s, 1:05, 2:03:04, 3 d 4 h. */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return "–"
  if (seconds < 0) seconds = 0
  if (seconds < 1) return `${seconds.toFixed(2)} s`
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  const two = (n: number) => String(n).padStart(2, "0")
  if (h >= 48) return `${Math.floor(h / 24)} d ${h % 24} h`
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`
}

/** formatCount writes a number with a thin grouping: 61,204. Without toLocaleString: loading its tables of languages takes 10 ms. */
export const formatCount = (n: number) => (Number.isSafeInteger(n) ? String(n).replace(/\B(?=(\d{3})+$)/g, ",") : n.toLocaleString("en-US"))

/** some counts things in words: 1 line, 61,204 lines. */
export const some = (n: number, thing: string) => `${formatCount(n)} ${thing}${n === 1 ? "" : "s"}`

/** formatAgo says how long ago, or in how long, a moment is: 4 min ago, in 2 h. */
export function formatAgo(then: number, now: number): string {
  const seconds = Math.abs(then - now) / 1000
  const text =
    seconds < 5 ? "" : seconds < 60 ? `${Math.floor(seconds)} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min` : seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`
  if (!text) return "now"
  return then > now ? `in ${text}` : `${text} ago`
}

/** formatMoment writes a moment in the reader's time zone, to the second or the millisecond. */
export function formatMoment(time: string | number, ms = false): string {
  const d = new Date(time)
  if (Number.isNaN(d.getTime())) return "–"
  const two = (n: number, width = 2) => String(n).padStart(width, "0")
  const clock = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}${ms ? "." + two(d.getMilliseconds(), 3) : ""}`
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock}`
}

/** formatBytes writes a size: 14 KB, 2.3 MB. */
export function formatBytes(n: number): string {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (n < 1000) return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`
    n /= 1000
  }
  return `${n.toFixed(1)} TB`
}

/** shortID is what people tell a long id by: its beginning and its end. */
export const shortID = (id: string) => (id.length <= 20 ? id : id.slice(0, 8) + "…" + id.slice(-4))
