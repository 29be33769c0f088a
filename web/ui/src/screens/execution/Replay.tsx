import { useEffect, useRef, useState } from "react"
import { useKeys } from "../../keys"
import { formatCount, formatMoment } from "../../format"
import { StateWord } from "../../parts/State"
import { useGraph } from "./ask"
import { say } from "../../parts/Toasts"
import { usePage } from "./page"

/** versionOf reads a version of an address; undefined: it is none, so now is shown. */
export function versionOf(text: string | undefined): number | undefined {
  return text && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined
}

const settle = 120 // ms after which a moved slider asks for what is not folded in the page
const frame = 50 // ms between two moments that are played
const idle = 1000 // ms that a time in which nothing happened is played at most
const speeds = [1, 10, 100, 1000]

/** Replay shows the execution as it was: a slider over its commits. The one that is chosen is in the address. */
export function Replay() {
  const { id, at, moment, move, replay, unfolded, setSearch } = usePage()
  const now = useGraph(id, [])
  const then = useGraph(id, [], at)
  const last = now.data?.version ?? 0
  const [playing, play] = useState(false)
  const [speed, setSpeed] = useState(1)
  const shown = moment ?? last
  const go = (version: number | undefined) => {
    move(undefined)
    setSearch({ at: version === undefined ? undefined : String(Math.max(1, Math.min(last, version))) })
  }
  useEffect(() => {
    if (playing || moment === at || moment === undefined) return
    const timer = setTimeout(() => go(moment), settle)
    return () => clearTimeout(timer)
  }, [moment, at, playing])
  usePlaying(playing, speed, last, () => { play(false); go(last) })
  const step = (by: number) => {
    play(false)
    go(shown + by)
  }
  const toggle = () => {
    if (unfolded) return say("The changes of this execution cannot be had at once, so it cannot be played. The slider shows single moments.")
    if (!playing && (moment === undefined || moment >= last)) go(1)
    play(!playing)
  }
  useKeys([
    { keys: ",", does: "Replay: the commit before", act: () => step(-1) },
    { keys: ".", does: "Replay: the commit after", act: () => { if (moment !== undefined) step(1) } },
    { keys: "Space", does: "Replay: play and stop", act: toggle },
    { keys: "p", does: "Replay: play and stop", act: toggle },
    { keys: "n", does: "Replay: back to now", act: () => { play(false); go(undefined) } },
  ])
  if (last < 2) return null
  const as = moment === undefined ? undefined : then.data?.as_of
  const time = moment === undefined ? undefined : replay ? replay.timeOf(moment) : as?.version === moment && as.at ? Date.parse(as.at) : undefined
  return (
    <section className="x-replay" aria-label="Replay" data-past={moment !== undefined || undefined}>
      <button type="button" className="button" aria-label="The commit before" onClick={() => step(-1)} disabled={shown <= 1}>◀</button>
      <button type="button" className="button" aria-pressed={playing} onClick={toggle}>{playing ? "Stop" : "Replay"}</button>
      <button type="button" className="button" aria-label="The commit after" onClick={() => step(1)} disabled={moment === undefined || shown >= last}>▶</button>
      <input type="range" aria-label="Commit" aria-valuetext={`${formatCount(shown)} of ${formatCount(last)}`} min={1} max={last} value={Math.min(shown, last)} onChange={(e) => { play(false); move(Number(e.target.value)) }} />
      <span className="x-replay-at" role="status">
        {moment === undefined ? <span className="quiet">now, commit {formatCount(last)}</span> : then.error ? <span className="x-bad">{then.error.message}</span> : (
          <>{as && as.version === moment && <><StateWord state={as.status} /> </>}{time !== undefined && <><time dateTime={new Date(time).toISOString()}>{formatMoment(time, true).slice(11)}</time> · </>}commit {formatCount(moment)} of {formatCount(last)}</>
        )}
      </span>
      <select className="input" aria-label="Speed of the replay" value={speed} onChange={(e) => setSpeed(Number(e.target.value))}>
        {speeds.map((n) => <option key={n} value={n}>{formatCount(n)}×</option>)}
      </select>
      {moment !== undefined && <button type="button" className="button" onClick={() => { play(false); go(undefined) }}>Now</button>}
    </section>
  )
}

// usePlaying moves on as time did, times the speed. The address follows twice a second, and what is asked for with it as soon as the
// server has answered.
function usePlaying(playing: boolean, speed: number, last: number, onEnd: () => void) {
  const { id, at, moment, move, replay, setSearch } = usePage()
  const asked = useGraph(id, [], at)
  const latest = useRef({ moment, answered: true, onEnd })
  latest.current = { moment, answered: at === undefined || asked.data?.as_of?.version === at || asked.error !== null, onEnd }
  useEffect(() => {
    if (!playing || !replay) return
    let version = latest.current.moment ?? 1
    let clock = replay.timeOf(version)
    let [before, told] = [performance.now(), performance.now()]
    const timer = setInterval(() => {
      const now = performance.now()
      clock += (now - before) * speed
      before = now
      const next = replay.next(version)
      if (next !== undefined && next - clock > idle * speed) clock = next - idle * speed
      version = next === undefined ? last : Math.min(last, Math.max(version, replay.versionAt(clock)))
      if (version >= last) return latest.current.onEnd()
      move(version)
      if (now - told < 500 || !latest.current.answered) return
      told = now
      setSearch({ at: String(version) })
    }, frame)
    return () => clearInterval(timer)
  }, [playing, replay, speed, last, move, setSearch])
}
