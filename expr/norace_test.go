//go:build !race

package expr

// slack is how much longer things may take here than on an idle machine.
const slack = 4
