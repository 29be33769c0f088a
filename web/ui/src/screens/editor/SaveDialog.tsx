import { MergeView, unifiedMergeView } from "@codemirror/merge"
import { EditorState } from "@codemirror/state"
import { EditorView } from "@codemirror/view"
import { useEffect, useRef, useState } from "react"
import type { Problem } from "../../api/client"
import { Dialog } from "../../parts/Dialog"
import { basics } from "./TextPane"

/** Diff shows what changed between two texts, in one column. */
export function Diff({ before, after }: { before: string; after: string }) {
  const host = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const view = new EditorView({
      parent: host.current!,
      state: EditorState.create({ doc: after, extensions: [...basics, EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-label": "Changes" }), unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 2 } })] }),
    })
    return () => view.destroy()
  }, [before, after])
  return <div ref={host} className="diff" />
}

interface Props {
  before: string
  after: string
  draft: boolean
  busy: boolean
  problem: Problem | null
  onSave: (note: string) => void
  onClose: () => void
}

/** SaveDialog shows the changes and asks for a note before a version is stored. */
export function SaveDialog({ before, after, draft, busy, problem, onSave, onClose }: Props) {
  const [note, setNote] = useState("")
  return (
    <Dialog title="Save a new version" does="Save" wide busy={busy} problem={problem} onClose={onClose} onDo={() => onSave(note)} refused={before === after && "nothing has changed"}>
      <Diff before={before} after={after} />
      {draft && <div className="note" data-kind="warn">The pipeline has problems: it is kept as a draft, and the version before stays active.</div>}
      <label className="field-label">
        <span>Note</span>
        <input className="input" maxLength={500} placeholder="Why it changes" value={note} onChange={(e) => setNote(e.target.value)} />
      </label>
    </Dialog>
  )
}

/** MergeDialog shows two people's changes beside each other. Left is what was stored meanwhile, right what is kept; chunks are taken over by their arrows. */
export function MergeDialog({ base, theirs, mine, onKeep, onClose }: { base: string; theirs: string; mine: string; onKeep: (text: string) => void; onClose: () => void }) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<MergeView>(null)
  useEffect(() => {
    const v = new MergeView({
      parent: host.current!,
      a: { doc: theirs, extensions: [...basics, EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-label": "Stored meanwhile" })] },
      b: { doc: mine, extensions: [...basics, EditorView.contentAttributes.of({ "aria-label": "Yours" })] },
      revertControls: "a-to-b", collapseUnchanged: { margin: 3 },
    })
    view.current = v
    return () => v.destroy()
  }, [theirs, mine])
  return (
    <Dialog title="Somebody else stored a version meanwhile" does="Go on with the right side" wide onClose={onClose} onDo={() => onKeep(view.current!.b.state.doc.toString())}>
      <p className="quiet">Left: the stored version. Right: yours. The arrows between them take over a change of theirs. Changes since the version that you opened: theirs {changed(base, theirs)}, yours {changed(base, mine)} lines.</p>
      <div ref={host} className="diff" />
    </Dialog>
  )
}

const changed = (a: string, b: string) => {
  const before = new Set(a.split("\n"))
  const after = new Set(b.split("\n"))
  return [...after].filter((l) => !before.has(l)).length + [...before].filter((l) => !after.has(l)).length
}
