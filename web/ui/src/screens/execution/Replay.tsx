import { useEffect, useState } from "react"
import { useKeys } from "../../keys"
import { formatCount, formatMoment } from "../../format"
import { StateWord } from "../../parts/State"
import { useGraph } from "./ask"
import { usePage } from "./page"

/** versionOf reads a version of an address; undefined: it is none, so now is shown. */
export function versionOf(text: string | undefined): number | undefined {
  return text && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined
}

const settle = 120 // ms after which a moved slider asks

/** Replay shows the execution as it was: a slider over its commits. The one that is chosen is in the address. */
export function Replay() {
  const { id, at, field, setSearch } = usePage()
  const now = useGraph(id, [])
  const then = useGraph(id, [], at)
  const last = now.data?.version ?? 0
  const [moved, move] = useState<number>() // where the slider is before the page follows
  const [playing, play] = useState(false)
  const shown = moved ?? at ?? last
  const go = (version: number | undefined) => {
    move(undefined)
    setSearch({ at: version === undefined ? undefined : String(Math.max(1, Math.min(last, version))) })
  }
  useEffect(() => {
    if (moved === undefined) return
    const timer = setTimeout(() => go(moved), settle)
    return () => clearTimeout(timer)
  }, [moved])
  // The next version is shown when the last one was: 200 take as long as a slow server needs, and at least 20 seconds.
  const there = at !== undefined && then.data?.as_of?.version === at && field.steps?.version === at
  useEffect(() => {
    if (!playing || !there) return
    if (at >= last) return play(false)
    const timer = setTimeout(() => go(at + Math.max(1, Math.ceil(last / 200))), 100)
    return () => clearTimeout(timer)
  }, [playing, there, at, last])
  const toggle = () => {
    if (!playing && (at === undefined || at >= last)) go(1)
    play(!playing)
  }
  useKeys([
    { keys: ",", does: "Replay: the commit before", act: () => go(shown - 1) },
    { keys: ".", does: "Replay: the commit after", act: () => { if (at !== undefined) go(shown + 1) } },
    { keys: "p", does: "Replay: play and stop", act: toggle },
    { keys: "n", does: "Replay: back to now", act: () => { play(false); go(undefined) } },
  ])
  if (last < 2) return null
  const as = at === undefined ? undefined : then.data?.as_of
  return (
    <section className="x-replay" aria-label="Replay" data-past={at !== undefined || undefined}>
      <button type="button" className="button" aria-label="The commit before" onClick={() => go(shown - 1)} disabled={shown <= 1}>◀</button>
      <button type="button" className="button" aria-pressed={playing} onClick={toggle}>{playing ? "Stop" : "Replay"}</button>
      <button type="button" className="button" aria-label="The commit after" onClick={() => go(shown + 1)} disabled={at === undefined || shown >= last}>▶</button>
      <input type="range" aria-label="Commit" aria-valuetext={`${formatCount(shown)} of ${formatCount(last)}`} min={1} max={last} value={Math.min(shown, last)} onChange={(e) => { play(false); move(Number(e.target.value)) }} />
      <span className="x-replay-at" role="status">
        {at === undefined ? <span className="quiet">now, commit {formatCount(last)}</span> : then.error ? <span className="x-bad">{then.error.message}</span> : (
          <>{as && as.version === at && <><StateWord state={as.status} /> <time dateTime={as.at!}>{formatMoment(as.at!, true).slice(11)}</time> · </>}commit {formatCount(at)} of {formatCount(last)}</>
        )}
      </span>
      {at !== undefined && <button type="button" className="button" onClick={() => { play(false); go(undefined) }}>Now</button>}
    </section>
  )
}
