//go:build race

package expr

// slack is how much longer things may take here: the race detector slows everything down.
const slack = 20
