//go:build unix && !linux

package builtin

// awaitExit returns when the process has ended. It has been reaped then; the group is killed within the
// grace time, in which its number could in theory be given to another one. Only Linux can do better
// without tracing.
func awaitExit(_ int, wait func() error) {
	_ = wait() // the caller asks for the result once more
}
