import { isStructured, textOf, type Parameter } from "../../document/params"
import { AreaField, PickField, TextField } from "../../parts/Fields"

interface Props {
  params: Parameter[]
  texts: Record<string, string>
  problems: Record<string, string>
  onChange: (texts: Record<string, string>) => void
}

/** ParamsForm asks for the values of parameters, each by its type. What is left as it is is not sent. */
export function ParamsForm({ params, texts, problems, onChange }: Props) {
  if (params.length === 0) return <p className="quiet">It has no parameters.</p>
  return (
    <>
      {params.map((p) => {
        const shown = texts[p.name] ?? textOf(p.type, p.default)
        const common = {
          label: p.name + (p.required && p.default === undefined ? " *" : ""),
          hint: [p.type, p.secret && "secret", p.description].filter(Boolean).join(" · "),
          problem: problems[p.name],
          value: shown,
          onChange: (text: string) => onChange({ ...texts, [p.name]: text }),
        }
        if (p.enum) return <PickField key={p.name} {...common} choices={[...(p.default === undefined ? [["", "choose …"] as const] : []), ...p.enum]} />
        if (p.type === "boolean") return <PickField key={p.name} {...common} choices={[...(p.default === undefined ? [["", "choose …"] as const] : []), "true", "false"]} />
        if (isStructured(p.type)) return <AreaField key={p.name} {...common} rows={Math.min(8, 2 + Math.floor(shown.length / 60))} />
        return <TextField key={p.name} {...common} type={p.secret ? "password" : "text"} inputMode={p.type === "integer" ? "numeric" : p.type === "number" || p.type === "float" ? "decimal" : undefined} />
      })}
    </>
  )
}
