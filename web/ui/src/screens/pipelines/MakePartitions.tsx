import { useRef, useState } from "react"
import { api, base, data, Problem, queries, useAsk, useDo } from "../../api/client"
import { valuesOf } from "../../document/params"
import { formatCount } from "../../format"
import { useRefusal } from "../../me"
import { Copyable } from "../../parts/Copy"
import { Dialog } from "../../parts/Dialog"
import { CheckField, TextField } from "../../parts/Fields"
import { Loaded } from "../../parts/Loading"
import { say } from "../../parts/Toasts"
import { ParamsForm } from "../run/ParamsForm"
import { useParameters } from "../run/useParameters"
import { commandOf, lookAt, readOnly, valuesAt, wanted, type Table } from "./partitions"

/** The most that the page starts by itself: more are a matter of the command, which waits for their ends. */
const most = 50
const makes = ["missing", "stale", "failed"] as const

interface Props {
  table: Table
  version: number
  /** The place of one partition that is to be made; left out: those of some states. */
  one?: number
  /** The states that stand out in the grid. */
  lit: readonly string[]
  onClose: () => void
}

/** MakePartitions starts executions for partitions, or shows the command that does. */
export function MakePartitions({ table: t, version, one, lit, onClose }: Props) {
  const [chosen, setChosen] = useState<string[]>(() => {
    const some = makes.filter((s) => t.counts[s])
    const few = some.filter((s) => lit.includes(s))
    return few.length ? few : some
  })
  const [typed, setTyped] = useState<string[]>(() => t.by.map(() => ""))
  const [parallel, setParallel] = useState("4")
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [tried, setTried] = useState(false)
  const [started, setStarted] = useState(0)
  const noRun = useRefusal("operator")
  const stop = useRef(false)
  const source = useAsk(["pipelines", t.pipeline_id, "version", version], (signal) => data(api.GET("/api/v1/pipelines/{pipeline_id}/versions/{version}", { params: { path: { pipeline_id: t.pipeline_id, version } }, signal })))
  const declared = useParameters(source.data?.document ?? "").params
  const params = declared.filter((p) => !t.by.includes(p.name))
  const { values, problems } = valuesOf(params, texts)

  const state = one === undefined ? "" : lookAt(t.grid[one]!).state
  const only = one === undefined ? typed.map((text, k) => readOnly(text, t.axes[k]!)) : valuesAt(t.axes, one).map((v) => ({ values: [v], wrong: undefined }))
  const states = one === undefined ? chosen : makes.filter((s) => s === state)
  const found = one === undefined ? wanted(t, chosen, only.map((o) => o.values), most) : { count: 1, first: [one] }
  const bad = only.some((o) => o.wrong !== undefined)
  const n = Number(parallel)
  const command = one !== undefined && states.length === 0 ? "" : commandOf({
    name: t.name, by: t.by, states, only: only.map((o) => o.values), params: values, secrets: params.filter((p) => p.secret).map((p) => p.name),
    parallel: Number.isInteger(n) && n >= 1 && n <= 100 ? n : 4, server: window.location.origin + base.replace(/\/$/, ""),
  })
  const start = useDo(async () => {
    for (const [i, at] of found.first.entries()) {
      if (stop.current) break
      await startOne(t, valuesAt(t.axes, at), [...states], values)
      setStarted(i + 1)
    }
  }, [["partitions", t.pipeline_id]])
  const close = () => { stop.current = true; onClose() }
  const go = () => {
    setTried(true)
    setStarted(0)
    if (Object.keys(problems).length === 0) start.mutate(undefined, { onSuccess: () => { say(found.count === 1 ? "It is started." : `${found.count} executions are started.`); onClose() }, onError: () => void queries.invalidateQueries({ queryKey: ["partitions", t.pipeline_id] }) })
  }
  const refused = noRun || (bad ? "a value is not known" : states.length === 0 && one === undefined ? "choose a state" : found.count === 0 ? "there is nothing to do" : found.count > most ? `more than ${most}: use the command` : !source.data && "its parameters are being read")
  const first = found.first.slice(0, 6).map((at) => valuesAt(t.axes, at).join(" "))
  return (
    <Dialog title={one === undefined ? `Backfill ${t.name}` : `Make ${valuesAt(t.axes, one).join(" ")}${state === "done" ? " again" : ""}`} does={found.count <= 1 ? "Start it" : found.count > most ? "Start" : `Start ${found.count}`} wide refused={refused} busy={start.isPending} problem={start.error} onClose={close} onDo={go}>
      {one === undefined && (
        <>
          <div className="row" role="group" aria-label="Which partitions">
            {makes.map((s) => <CheckField key={s} label={`${formatCount(t.counts[s] ?? 0)} ${s}`} value={chosen.includes(s)} onChange={(on) => setChosen(makes.filter((m) => (m === s ? on : chosen.includes(m))))} />)}
          </div>
          <div className="two">
            {t.by.map((name, k) => <TextField key={name} label={`Only ${name}`} value={typed[k]!} placeholder="all" choices={t.axes[k]!.slice(-200)} hint={only[k]!.values.length > 1 ? `${only[k]!.values.length} values` : "one value, or several with commas"} problem={only[k]!.wrong !== undefined && `${name} has no value “${only[k]!.wrong}”`} onChange={(text) => setTyped(typed.with(k, text))} />)}
          </div>
        </>
      )}
      <Loaded of={source} lines={2}>{() => params.length > 0 && <ParamsForm params={params} texts={texts} problems={tried ? problems : {}} onChange={setTexts} />}</Loaded>
      <p role="status">
        {found.count === 0 ? "No partition would be made." : <><b>{formatCount(found.count)}</b> {found.count === 1 ? "execution" : "executions"}: <span className="mono">{first.join(", ")}</span>{found.count > first.length && ` and ${formatCount(found.count - first.length)} more`}.</>}
        {start.isPending && ` ${started} are started.`}
        {start.error && started > 0 && ` ${started} were started before it was refused; repeated, each is found and none is started twice.`}
      </p>
      {found.count > 1 && found.count <= most && <p className="quiet">The page starts all of them at once; the server runs them as its limits allow. The command starts some at a time, and waits until all have ended.</p>}
      {found.count > most && <p className="note">The page starts at most {most}. The command makes all of them, some at a time, and goes on where it was when it is repeated.</p>}
      {command && found.count > 0 && (
        <>
          {one === undefined && <TextField label="At most at the same time, by the command" type="number" inputMode="numeric" min={1} max={100} value={parallel} problem={!(Number.isInteger(n) && n >= 1 && n <= 100) && "a whole number from 1 to 100"} onChange={setParallel} />}
          <Copyable text={command} label="Command" />
        </>
      )}
    </Dialog>
  )
}

// startOne starts one, and again for a while where the server is busy.
async function startOne(t: Table, values: string[], state: string[], params: Record<string, unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await data(api.POST("/api/v1/pipelines/{pipeline_id}/partitions/start", { params: { path: { pipeline_id: t.pipeline_id } }, body: { values, ...(state.length ? { state } : {}), params } }))
      return
    } catch (err) {
      if (!(err instanceof Problem) || ![429, 503].includes(err.status) || tries === 8) throw err
      await new Promise((done) => setTimeout(done, 500 * tries))
    }
  }
}
