import { activeKeys } from "../keys"
import { Dialog } from "../parts/Dialog"

/** Help lists the keys that work now. */
export function Help({ onClose }: { onClose: () => void }) {
  const seen = new Set<string>()
  const keys = activeKeys().filter((k) => !seen.has(k.keys) && seen.add(k.keys))
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table className="table">
        <tbody>
          {keys.map((k) => (
            <tr key={k.keys}>
              <td>{k.keys.split(/[ +]/).map((p) => <kbd key={p} className="kbd" style={{ marginRight: 4 }}>{p.charAt(0).toUpperCase() + p.slice(1)}</kbd>)}</td>
              <td>{k.does}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  )
}
