package scenario

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stepwell/stepwell/action"
)

// The test that is written of each of 200 random executions is green.
func TestExportedTestsAreGreen(t *testing.T) {
	played, again := runner(t, nil), runner(t, nil)
	played.o.Handlers = map[string]action.Handler{"action util.exec": action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) { return effect(c) })}
	ends := map[string]int{}
	for seed, n := uint64(1), 0; n < 200; seed++ {
		d := draw(rand.New(rand.NewPCG(seed, 29)))
		def, ok := parsed(t, again.o.Actions, d)
		if !ok {
			continue
		}
		n++
		rec := recordingOf(t, live(t, played, def))
		rec.File = "drawn.yaml"
		ends[rec.Status]++
		var src bytes.Buffer
		if err := rec.WriteTest(&src, again.o.Actions, nil); err != nil {
			t.Fatal(err)
		}
		tests, problems := Parse("drawn.test.yaml", src.Bytes())
		if err := problems.Err(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, src.String())
		}
		tests[0].def = def
		result, err := again.Run(t.Context(), tests[0])
		if err != nil {
			t.Fatal(err)
		}
		if !result.Passed {
			t.Fatalf("seed %d: %+v\n%s\n%s", seed, result.Failures, src.String(), d.source(t))
		}
	}
	if len(ends) < 3 {
		t.Errorf("all executions end alike: %v", ends)
	}
	t.Logf("%v", ends)
}
