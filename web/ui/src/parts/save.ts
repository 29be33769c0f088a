/** save gives a text to the browser as a file. */
export function save(parts: BlobPart[], name: string, type = "text/plain"): void {
  const url = URL.createObjectURL(new Blob(parts, { type }))
  const link = document.createElement("a")
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
