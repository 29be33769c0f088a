//go:build race

package engine

// slower is how much time limits are stretched with the race detector.
const slower = 20
