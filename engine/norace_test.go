//go:build !race

package engine

// slower is how much time limits are stretched.
const slower = 1
