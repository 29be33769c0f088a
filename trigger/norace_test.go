//go:build !race

package trigger_test

const raceEnabled = false
