import { diffKind, partsOf } from "../../document/highlight"

const most = 5_000 // lines that are coloured

/** DocumentText shows a pipeline's text with numbers of lines, some of them marked; it is only read. */
export function DocumentText({ text, label, mark }: { text: string; label: string; mark?: { from: number; to: number } }) {
  const lines = text.replace(/\n$/, "").split("\n")
  return (
    <pre className="code document" tabIndex={0} aria-label={label}>
      {lines.map((line, i) => <div key={i} data-line={i + 1} data-marked={(mark && i + 1 >= mark.from && i + 1 <= mark.to) || undefined}>{i < most ? partsOf(line).map((p, n) => (p.kind ? <span key={n} data-kind={p.kind}>{p.text}</span> : p.text)) : line}{"\n"}</div>)}
    </pre>
  )
}

/** DiffText shows a unified diff: lines that were added and removed have a sign and a colour. */
export function DiffText({ text, label }: { text: string; label: string }) {
  return (
    <pre className="code diff" tabIndex={0} aria-label={label}>
      {text.replace(/\n$/, "").split("\n").map((line, i) => <div key={i} data-kind={diffKind(line)}>{line || " "}{"\n"}</div>)}
    </pre>
  )
}
