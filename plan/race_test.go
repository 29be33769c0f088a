//go:build race

package plan

// slower is how much time limits are stretched with the race detector.
const slower = 20
