//go:build !race

package plan

// slower is how much time limits are stretched.
const slower = 1
