import { useEffect, useRef, useState } from "react"
import { Link } from "wouter"
import { api, data, useAsk } from "../../api/client"
import { formatCount } from "../../format"
import { Button } from "../../parts/Button"
import { Loaded } from "../../parts/Loading"
import { save } from "../../parts/save"
import { complain } from "../../parts/Toasts"
import { DocumentText } from "../pipelines/Text"
import { usePage } from "./page"

/** Source is the document that the execution runs, with the lines of the selected step marked. */
export function Source() {
  const { id, x, step } = usePage()
  const source = useAsk(["execution", id, "source"], (signal) => data(api.GET("/api/v1/executions/{execution_id}/source", { params: { path: { execution_id: id } }, signal })), { staleTime: Infinity })
  const [copied, setCopied] = useState(false)
  const text = useRef<HTMLDivElement>(null)
  const key = step?.replace(/\[\d+\]/g, "")
  // Of a step that was added while it ran, or of another pipeline that a step runs, the nearest around it that the text has.
  const lines = key === undefined ? undefined : source.data?.steps.filter((s) => key === s.step_id || key.startsWith(s.step_id + ".")).sort((a, b) => b.step_id.length - a.step_id.length)[0]
  useEffect(() => { text.current?.querySelector(`[data-line="${lines?.from}"]`)?.scrollIntoView({ block: "center" }) }, [lines?.from])
  return (
    <Loaded of={source} lines={10}>{(s) => (
      <div className="x-source" ref={text}>
        <div className="row">
          <span className="quiet grow">
            {s.origin === "version" && <>The text of <Link href={`/pipelines/${s.pipeline_id}`}>{x.pipeline}</Link>, version {s.version}.</>}
            {s.origin === "inline" && "As it was written when the execution was started."}
            {s.origin === "definition" && "The text was not kept. This is what the execution runs, written as YAML, with defaults and without comments."}
            {lines && <> Lines {formatCount(lines.from)} to {formatCount(lines.to)} are <span className="mono">{lines.step_id}</span>.</>}
            {key !== undefined && !lines && " The selected step is not in it."}
          </span>
          <Button onClick={() => void navigator.clipboard.writeText(s.document).then(() => setCopied(true), complain)}>{copied ? "Copied" : "Copy"}</Button>
          <Button onClick={() => save([s.document], `${x.pipeline.replace(/[^\w.-]+/g, "_")}.${s.format}`)}>Download</Button>
        </div>
        <DocumentText text={s.document} label="Document of the execution" mark={lines} />
      </div>
    )}</Loaded>
  )
}
