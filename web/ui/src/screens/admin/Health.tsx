import { address, api, data, Problem, useAsk, version, type Schemas } from "../../api/client"
import { formatCount, formatDuration } from "../../format"
import { Loaded } from "../../parts/Loading"

// A server that is not ready answers 503 with the reason: that is an answer here, not a failure.
async function ready(signal: AbortSignal): Promise<Schemas["Readiness"]> {
  try {
    return await (await fetch(address("/api/v1/ready"), { signal })).json()
  } catch (err) {
    if (signal.aborted) throw err
    throw new Problem(0, "unavailable", "the server does not answer", "it is asked again until it does")
  }
}

/** Health says how the server is, and what it has done. */
export function Health() {
  const health = useAsk(["stats", "health"], (signal) => data(api.GET("/api/v1/health", { signal })))
  const readiness = useAsk(["stats", "ready"], ready)
  const counts = useAsk(["stats", "counts"], async (signal) => (await data(api.GET("/api/v1/metrics", { headers: { Accept: "application/json" }, signal }))) as Schemas["Metrics"])
  return (
    <div className="cards">
      <section className="card" aria-labelledby="health">
        <header><h2 id="health">Health</h2></header>
        <div className="body">
          <Loaded of={health} lines={4}>
            {(h) => (
              <dl className="facts">
                <dt>Status</dt><dd>{h.status === "healthy" ? "✓ healthy" : `⚠ ${h.status}`}</dd>
                <dt>Ready</dt><dd>{!readiness.data ? "–" : readiness.data.ready ? "✓ takes requests" : <span className="bad">✕ {readiness.data.reason ?? "no"}</span>}</dd>
                <dt>Version</dt><dd>{h.version}{version && version !== "dev" && version !== h.version && ` · this page is of ${version}: reload it`}</dd>
                <dt>Scheduler</dt><dd>{h.scheduler_status}</dd>
                <dt>Dapr</dt><dd>{h.dapr_connected ? "connected" : "not connected"}</dd>
              </dl>
            )}
          </Loaded>
          <p className="quiet">What the machine lacks: <code>stepwell doctor</code>.</p>
        </div>
      </section>
      <section className="card" aria-labelledby="metrics">
        <header><h2 id="metrics">Metrics</h2></header>
        <div className="body">
          <Loaded of={counts} lines={4}>
            {({ executions: x, workflows: w, scheduler: s }) => (
              <dl className="facts">
                <dt>Executions running</dt><dd>{formatCount(x.running)}</dd>
                <dt>Last 24 hours</dt><dd>{formatCount(x.completed_24h)} completed, {formatCount(x.failed_24h)} failed</dd>
                <dt>Executions kept</dt><dd>{formatCount(x.total)}</dd>
                <dt>Success</dt><dd>{(100 * w.success_rate).toFixed(1)} %</dd>
                <dt>Takes</dt><dd>{formatDuration(w.avg_duration_ms / 1000)} on average</dd>
                <dt>Schedules</dt><dd>{formatCount(s.active_jobs)} active{s.next_run_in_seconds !== null && `, the next in ${formatDuration(s.next_run_in_seconds)}`}</dd>
              </dl>
            )}
          </Loaded>
          <p className="quiet">For Prometheus: <a href={address("/metrics")} target="_blank" rel="noreferrer">/metrics</a>.</p>
        </div>
      </section>
    </div>
  )
}
