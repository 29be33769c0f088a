import { Component, type ReactNode } from "react"
import { Problem } from "../api/client"
import { ProblemBox } from "../parts/Problem"

/** Broken catches faults of a screen, so that the frame stays. */
export class Broken extends Component<{ children: ReactNode }, { err?: unknown }> {
  override state: { err?: unknown } = {}
  static getDerivedStateFromError(err: unknown) { return { err } }
  override render() {
    const { err } = this.state
    if (err === undefined) return this.props.children
    const problem = err instanceof Problem ? err : new Problem(0, "internal", err instanceof Error ? err.message : String(err), "reload the page; after an upgrade of the server its old parts are gone")
    return <div className="screen"><ProblemBox title="This page failed" problem={problem} again={() => window.location.reload()} /></div>
  }
}
