import { useState } from "react"
import { Link } from "wouter"
import { address, api, data, useAsk, type Schemas } from "../../api/client"
import { formatBytes } from "../../format"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { Ago } from "../../parts/Time"
import { RunState } from "../queue/RunsQueue"

type Media = Schemas["Media"]
type Run = Schemas["PipelineRun"]

/** LessonPanel plays the file of a lesson, with the results of its runs beside it. */
export function LessonPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const lesson = useAsk(["lessons", "one", id], (signal) => data(api.GET("/api/v1/lessons/{lesson_id}", { params: { path: { lesson_id: id } }, signal })))
  return (
    <section className="card run-panel" aria-label="Lesson">
      <Loaded of={lesson} lines={4}>{(l) => (
        <>
          <header>
            <h2>{l.name || l.id}</h2>
            <Button kind="bare" aria-label="Close" onClick={onClose}>✕</Button>
          </header>
          <div className="lesson">
            <div>{l.media ? <Player id={id} media={l.media} /> : <p className="quiet">It has no file yet.</p>}</div>
            <Results project={l.project_id} lesson={id} />
          </div>
        </>
      )}</Loaded>
    </section>
  )
}

// The server gives ranges, so a player jumps anywhere without reading the whole file.
function Player({ id, media }: { id: string; media: Media }) {
  const src = address(`api/v1/lessons/${encodeURIComponent(id)}/media`)
  const [bad, setBad] = useState(false)
  const kind = /^(audio|video)\//.exec(media.type)?.[1]
  const failed = () => setBad(true)
  return (
    <>
      {kind === "audio" && <audio key={media.sha256} controls preload="metadata" src={src} aria-label={media.name} onError={failed} />}
      {kind === "video" && <video key={media.sha256} controls preload="metadata" src={src} aria-label={media.name} onError={failed} />}
      {bad && <p role="alert">This browser cannot play {media.type}.</p>}
      <p className="row"><a href={src} download={media.name}>{media.name}</a> <span className="quiet">{media.type} · {formatBytes(media.bytes)}</span></p>
    </>
  )
}

function Results({ project, lesson }: { project: string; lesson: string }) {
  const runs = useAsk(["runs", "of lesson", lesson], (signal) => data(api.GET("/api/v1/pipeline-runs", { params: { query: { project_id: project, lesson_id: lesson, limit: 20 } }, signal })))
  const [chosen, choose] = useState<string>()
  return (
    <div className="lesson-results">
      <Loaded of={runs} lines={3}>{({ data: list }) => {
        const run = list.find((r) => r.id === chosen) ?? list[0]
        return run === undefined ? <p className="quiet">It has no runs yet.</p> : (
          <>
            <div className="row" role="group" aria-label="Runs">
              {list.map((r) => <button key={r.id} type="button" className="chip" aria-pressed={r === run} onClick={() => choose(r.id)}>{r.pipeline_version.title} v{r.pipeline_version.version} <Ago time={r.created_at} /></button>)}
            </div>
            <Steps key={run.id} id={run.id} />
          </>
        )
      }}</Loaded>
    </div>
  )
}

// Lists of runs have no results.
function Steps({ id }: { id: string }) {
  const one = useAsk(["runs", "one", id], (signal) => data(api.GET("/api/v1/pipeline-runs/{run_id}", { params: { path: { run_id: id } }, signal })))
  return <Loaded of={one} lines={3}>{({ data: run }) => <StepsOf run={run} />}</Loaded>
}

function StepsOf({ run }: { run: Run }) {
  return (
    <dl className="lesson-steps">
      {run.steps.map((s) => (
        <div key={s.id}>
          <dt>{s.name} <RunState status={s.status} /></dt>
          <dd>{s.error ? <span className="bad">{s.error.message}</span> : s.result === undefined || s.result === null ? <span className="quiet">no result</span> : <pre tabIndex={0} aria-label={`Result of ${s.name}`}>{typeof s.result === "string" ? s.result : JSON.stringify(s.result, null, 1)}</pre>}</dd>
        </div>
      ))}
      <div><dt><Link href={`/executions/${run.id}`}>Execution</Link></dt></div>
    </dl>
  )
}
