import { api, data, useAsk, version } from "../../api/client"
import { Loaded } from "../../parts/Loading"

/** Health says how the server is. */
export function Health() {
  const health = useAsk(["stats", "health"], (signal) => data(api.GET("/api/v1/health", { signal })))
  const counts = useAsk(["stats", "counts"], (signal) => data(api.GET("/api/v1/metrics", { signal })))
  return (
    <Loaded of={health} lines={4}>
      {(h) => (
        <section className="card" aria-label="Health">
          <div className="body">
            <dl className="facts">
              <dt>Status</dt><dd>{h.status === "healthy" ? "✓ healthy" : `⚠ ${h.status}`}</dd>
              <dt>Version</dt><dd>{h.version}{version && version !== "dev" && version !== h.version && ` · this page is of ${version}: reload it`}</dd>
              <dt>Scheduler</dt><dd>{h.scheduler_status}</dd>
              <dt>Running executions</dt><dd>{h.active_workflows.toLocaleString("en-US")}</dd>
              <dt>Dapr</dt><dd>{h.dapr_connected ? "connected" : "not connected"}</dd>
              {typeof counts.data === "object" && <><dt>Executions kept</dt><dd>{counts.data.executions.total.toLocaleString("en-US")}</dd></>}
            </dl>
            <p className="quiet">What the machine lacks: <code>stepwell doctor</code>. Metrics for Prometheus: <code>/metrics</code>.</p>
          </div>
        </section>
      )}
    </Loaded>
  )
}
