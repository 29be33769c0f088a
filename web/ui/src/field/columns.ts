// Reads tables of columns, application/vnd.stepwell.columns (api/columns is the writer). Pure.

export interface Header {
  version: number
  rows: number
  from: number
  total: number
  columns: { name: string; type: string; length: number }[]
  states?: string[] | null
  workers?: string[] | null
  outcomes?: string[] | null
  actions?: string[] | null
  queues?: string[] | null
  began?: number
  /** Of a version of the past: milliseconds since 1970 when it was committed. */
  at?: number
  /** Of a message of changes: everything is to be fetched again. */
  again?: boolean
}

export type Values = Uint8Array | Uint16Array | Uint32Array | Float32Array

export interface Table {
  header: Header
  /** The values of a column, as a view of the table's buffer; undefined: it has none. */
  column: (name: string) => Values | undefined
}

const maxHeader = 1 << 20
const kinds: Record<string, { new (b: ArrayBuffer, at: number, n: number): Values; BYTES_PER_ELEMENT: number }> = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array }
const aligned = (n: number) => Math.ceil(n / 8) * 8

/** decode reads a table; it throws where the buffer is none. Columns of unknown names are kept, of unknown types refused. */
export function decode(buffer: ArrayBuffer): Table {
  const bytes = new Uint8Array(buffer)
  if (bytes.length < 8 || String.fromCharCode(...bytes.subarray(0, 4)) !== "SWC1") throw new Error("this is not a table of columns: it does not begin with SWC1")
  const length = new DataView(buffer).getUint32(4, true)
  if (length > maxHeader || aligned(8 + length) > bytes.length) throw new Error(`this is not a table of columns: its header is said to have ${length} bytes`)
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as Header
  const found = new Map<string, Values>()
  let at = aligned(8 + length)
  for (const c of header.columns) {
    const kind = kinds[c.type]
    if (!kind || !(c.length >= 0)) throw new Error(`this is not a table of columns: column ${c.name} has the type ${c.type}`)
    const size = c.length * kind.BYTES_PER_ELEMENT
    if (at + size > bytes.length) throw new Error(`this is not a table of columns: column ${c.name} is cut off`)
    found.set(c.name, new kind(buffer, at, c.length))
    at += aligned(size)
  }
  return { header, column: (name) => found.get(name) }
}
