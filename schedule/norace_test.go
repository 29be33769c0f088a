//go:build !race

package schedule

// walkStep is how many seconds lie between the questions near a change of clocks.
const walkStep = 60
