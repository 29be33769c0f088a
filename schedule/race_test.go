//go:build race

package schedule

// walkStep is how many seconds lie between the questions near a change of clocks. With the race detector
// everything takes ten times as long, and the walk has no goroutines.
const walkStep = 25 * 60
