// Unsaved texts, kept in this browser so that a crash of the page or the machine loses nothing.
interface Kept { text: string; base: string; at: number }

function open(): Promise<IDBDatabase> {
  return new Promise((done, failed) => {
    const asked = indexedDB.open("stepwell", 1)
    asked.onupgradeneeded = () => asked.result.createObjectStore("drafts")
    asked.onsuccess = () => done(asked.result)
    asked.onerror = () => failed(asked.error)
  })
}

async function within<T>(mode: IDBTransactionMode, act: (s: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
  try {
    const db = await open()
    return await new Promise<T>((done, failed) => {
      const asked = act(db.transaction("drafts", mode).objectStore("drafts"))
      asked.onsuccess = () => done(asked.result)
      asked.onerror = () => failed(asked.error)
    })
  } catch {
    return undefined // private windows have none: then only a crash costs the text
  }
}

/** keepDraft keeps an unsaved text of a pipeline with the text that it was made of. */
export const keepDraft = (id: string, text: string, base: string) => within("readwrite", (s) => s.put({ text, base, at: Date.now() } satisfies Kept, id))
/** dropDraft forgets it. */
export const dropDraft = (id: string) => within("readwrite", (s) => s.delete(id))
/** findDraft is the unsaved text of a pipeline, if there is one. */
export const findDraft = (id: string) => within<Kept | undefined>("readonly", (s) => s.get(id))
