package field

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stepwell/stepwell"
)

// TestLanes: every step that has started has the free lane with the lowest number, by a table of when each lane is free.
func TestLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 1 + rng.IntN(6000)
		table := &Table{status: make([]uint8, n), start: make([]uint32, n), duration: make([]uint32, n)}
		var order []int
		for i := range n {
			table.status[i] = uint8(stepwell.StepCompleted)
			switch rng.IntN(200) {
			case 0:
				table.status[i] = uint8(stepwell.StepRunning)
			case 1:
				table.status[i] = absent
			}
			table.start[i], table.duration[i] = uint32(rng.IntN(500)), uint32(rng.IntN(200))
			if table.start[i] > 0 && table.status[i] != absent {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(table.start[a]) - int(table.start[b]) })
		want := make([]uint32, n)
		var free []uint64 // by lane
		for _, i := range order {
			lane := slices.IndexFunc(free, func(at uint64) bool { return at <= uint64(table.start[i]) })
			if lane < 0 {
				lane, free = len(free), append(free, 0)
			}
			want[i], free[lane] = uint32(lane), uint64(table.start[i])+uint64(max(table.duration[i], 1))
			if table.status[i] == uint8(stepwell.StepRunning) {
				free[lane] = 1 << 40
			}
		}
		if table.arrangeLanes(); !slices.Equal(table.lane, want) {
			t.Fatalf("of %d steps the lanes are %v, want %v", n, table.lane[:min(n, 50)], want[:min(n, 50)])
		}
	}
}
