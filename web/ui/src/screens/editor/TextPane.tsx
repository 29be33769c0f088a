import { autocompletion, closeBrackets, completionKeymap, type CompletionContext } from "@codemirror/autocomplete"
import { defaultKeymap, history, historyKeymap, indentWithTab, redo, undo } from "@codemirror/commands"
import { yamlLanguage } from "@codemirror/lang-yaml"
import { bracketMatching, defaultHighlightStyle, foldGutter, HighlightStyle, indentUnit, LanguageSupport, syntaxHighlighting } from "@codemirror/language"
import { diagnosticCount, lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint"
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search"
import { Compartment, EditorState, Transaction, type ChangeSet, type Extension } from "@codemirror/state"
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view"
import { tags } from "@lezer/highlight"
import { useCallback, useEffect, useImperativeHandle, useRef, type Ref } from "react"
import { nonce, type Schemas } from "../../api/client"
import type { Edit } from "../../document/edits"
import { afterPaint } from "../../parts/painted"
import { suggest, type Known } from "./complete"

/** Text is what others do with the text. */
export interface Text {
  /** apply makes an edit of the text. It is the text at once; it is shown a moment later, when the graph of it was drawn, and before
   * anything else is done with the text. */
  apply: (edit: Edit) => void
  replace: (text: string) => void
  reveal: (offset: number) => void
  undo: () => void
  redo: () => void
}

const look = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.string, tags.attributeValue], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--warn)" },
])

const theme = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--ground)", color: "var(--text)", fontSize: "12px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "18px" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--chosen)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--chosen)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--quiet)" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
})

// A tree of small parts: after a change, the parser takes over those that did not change. Of the usual ones of 1024 characters, which hold
// several steps, it takes over none, and reads the whole text again.
const yaml = new LanguageSupport(yamlLanguage.configure({ bufferLength: 64 }))

/** basics are what every view of a pipeline's text has. */
export const basics: Extension[] = [lineNumbers(), yaml, syntaxHighlighting(look), syntaxHighlighting(defaultHighlightStyle, { fallback: true }), theme, EditorView.cspNonce.of(nonce), EditorView.lineWrapping]

/** diagnosticsOf places the server's problems in the text. */
export function diagnosticsOf(text: string, problems: readonly Schemas["Detail"][]): Diagnostic[] {
  const starts = [0]
  for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) starts.push(i + 1)
  return problems.map((p) => {
    const line = Math.min(Math.max(1, p.line ?? 1), starts.length)
    const begin = starts[line - 1]!
    const end = line < starts.length ? starts[line]! - 1 : text.length
    const from = Math.min(begin + Math.max(0, (p.column ?? 1) - 1), end)
    const word = /^[^\s:,\]}]*/.exec(text.slice(from, end))?.[0].length ?? 0
    return { from, to: Math.max(from, from + word), severity: p.warning ? "warning" : "error", message: p.hint ? `${p.message}\n${p.hint}` : p.message } as Diagnostic
  })
}

interface Props {
  initial: string
  readOnly: boolean
  problems: readonly Schemas["Detail"][]
  known: () => Known
  /** At is when the change began, in ms since 1970. */
  onChange: (text: string, at: number) => void
  onPlace: (offset: number) => void
  ref: Ref<Text>
}

const most = 250 // ms until an edit is shown, whatever is drawn meanwhile

// Events with which a user begins an edit of the text.
const begins = ["keydown", "beforeinput", "compositionstart", "pointerdown", "mousedown", "click", "paste", "cut", "drop", "focusin"]

/** TextPane is the document as text: it is the truth, whatever else is shown. */
export function TextPane({ initial, readOnly, problems, known, onChange, onPlace, ref }: Props) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(null)
  const locked = useRef(new Compartment())
  const calls = useRef({ known, onChange, onPlace })
  calls.current = { known, onChange, onPlace }
  const waiting = useRef<{ changes: ChangeSet; timer: ReturnType<typeof setTimeout> }>(undefined)
  const settle = useCallback(() => {
    const late = waiting.current
    if (!late) return
    waiting.current = undefined
    clearTimeout(late.timer)
    view.current!.dispatch({ changes: late.changes, userEvent: "input.form" })
  }, [])
  useEffect(() => {
    const complete = (c: CompletionContext) => {
      const found = suggest(c.state.doc.toString(), c.pos, calls.current.known())
      if (!found || found.options.length === 0 || (!c.explicit && c.pos === found.from && !/[.{:]\s?$/.test(c.state.sliceDoc(Math.max(0, c.pos - 2), c.pos)))) return null
      return { from: found.from, options: found.options.map((o) => ({ ...o, type: "property" })), validFor: /^[\w./-]*$/ }
    }
    const v = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: initial,
        extensions: [
          ...basics, history(), foldGutter(), lintGutter(), bracketMatching(), closeBrackets(), highlightActiveLine(), highlightSelectionMatches(), indentUnit.of("  "),
          autocompletion({ override: [complete] }), locked.current.of(EditorState.readOnly.of(readOnly)),
          keymap.of([...completionKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": "Pipeline as text" }),
          EditorView.updateListener.of((u) => {
            const late = waiting.current
            if (late && u.docChanged) late.changes = late.changes.map(u.changes) // a change that none of these events came before
            if (u.docChanged) calls.current.onChange((late ? late.changes.apply(u.state.doc) : u.state.doc).toString(), u.transactions[0]!.annotation(Transaction.time)!)
            if (u.selectionSet && u.view.hasFocus) calls.current.onPlace(u.state.selection.main.head)
          }),
        ],
      }),
    })
    view.current = v
    for (const type of begins) host.current!.addEventListener(type, settle, { capture: true })
    return () => {
      clearTimeout(waiting.current?.timer)
      waiting.current = undefined
      v.destroy()
    }
    // The text is the editor's own from here on; Text.replace sets another.
  }, [])
  useEffect(() => { view.current?.dispatch({ effects: locked.current.reconfigure(EditorState.readOnly.of(readOnly)) }) }, [readOnly])
  useEffect(() => {
    const tell = () => {
      settle() // the problems are those of the text with the edit
      const v = view.current!
      if (problems.length > 0 || diagnosticCount(v.state) > 0) v.dispatch(setDiagnostics(v.state, diagnosticsOf(v.state.doc.toString(), problems)))
    }
    if (waiting.current) return afterPaint(tell)
    tell()
  }, [problems, settle])
  useImperativeHandle(ref, () => {
    const settled = <A extends unknown[]>(act: (...args: A) => unknown) => (...args: A) => { settle(); act(...args) }
    return {
      apply: settled((edit: Edit) => {
        waiting.current = { changes: view.current!.state.changes(edit.changes.map((c) => ({ ...c }))), timer: setTimeout(settle, most) }
        calls.current.onChange(edit.text, Date.now())
      }),
      replace: settled((text: string) => view.current!.dispatch({ changes: { from: 0, to: view.current!.state.doc.length, insert: text } })),
      reveal: settled((offset: number) => view.current!.dispatch({ selection: { anchor: Math.min(offset, view.current!.state.doc.length) }, effects: EditorView.scrollIntoView(Math.min(offset, view.current!.state.doc.length), { y: "center" }) })),
      undo: settled(() => undo(view.current!)),
      redo: settled(() => redo(view.current!)),
    }
  })
  return <div ref={host} className="text-pane" />
}
