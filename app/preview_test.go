package app_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
)

// streamShapes are graphs of streams: "step inputs…". r reads, m… fails for the items that have a 0 for it, w… writes.
var streamShapes = [][]string{
	{"r", "m1 r", "w1 m1"},
	{"r", "m1 r", "m2 m1", "m3 m2", "w1 m3"},
	{"r", "m1 r", "m2 r", "w1 m1 m2"},                   // a join
	{"r", "m1 r", "m2 m1", "m3 m1", "w1 m2 m3"},         // a join behind a step
	{"r", "m1 r", "m2 r", "w1 m1", "w2 m2"},             // two branches
	{"r", "m1 r", "m2 m1", "w1 m1", "w2 m2"},            // an end on the way
	{"r", "m1 r", "m2 r", "m3 m2", "w1 m1 m3", "w2 m3"}, // a join and an end
}

// What the preview of a retry says of a stream is what then happens: each step runs or is kept, and as many items as are
// told fail at it once more while nothing is repaired. When all is repaired, these items alone are read again.
func TestPreviewOfStreams(t *testing.T) {
	for seed := range uint64(14) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			r := newStreamRig(t)
			shape := streamShapes[int(seed)%len(streamShapes)]
			doc, items := streamOf(shape), 1+random.IntN(60)
			fails := make([][4]int, items)
			for i := range fails {
				for m := 1; m <= 3; m++ {
					fails[i][m] = 1
					if slices.ContainsFunc(shape, func(s string) bool { return strings.HasPrefix(s, fmt.Sprintf("m%d ", m)) }) {
						fails[i][m] = random.IntN(4) // 0: it fails at m
					}
				}
			}
			r.source(fails, 0)
			bad := 0
			for _, f := range fails {
				bad += min(1, strings.Count(fmt.Sprint(f[1:]), "0"))
			}
			r.with(func(a *app.App) {
				id := r.start(a, doc)
				x, first := r.end(a, id)
				if bad == 0 {
					if x.Status != stepwell.ExecutionCompleted {
						t.Fatal(x.Status, x.Failure)
					}
					return
				}
				for _, repaired := range []bool{false, true} {
					would, err := a.Conductor.PreviewRetry(t.Context(), id, "")
					if err != nil {
						t.Fatal(err)
					}
					told, failed := map[string]int64{}, map[string]int64{}
					for key, step := range first {
						if n := step.Items(); n != nil && n.Failed > 0 {
							told[key] = n.Failed
						}
					}
					if diff := cmp.Diff(told, would.Items); diff != "" {
						t.Errorf("items told: %s", diff)
					}
					if repaired {
						r.source(fails, 1)
					}
					id, err = a.Conductor.Retry(t.Context(), id, "")
					if err != nil {
						t.Fatal(err)
					}
					x, steps := r.end(a, id)
					want := stepwell.ExecutionCompletedWithFailures
					if repaired {
						want = stepwell.ExecutionCompleted
					}
					if x.Status != want {
						t.Fatalf("%v %v", x.Status, x.Failure)
					}
					var ran, kept []string
					for key, step := range steps {
						if n := step.Items(); n != nil && n.Failed > 0 {
							failed[key] = n.Failed
						}
						if key == "finally.report" {
							continue
						}
						if step.Attempt > 0 {
							ran = append(ran, key)
						} else {
							kept = append(kept, key)
						}
					}
					runs := slices.Clone(would.Repeated)
					for _, again := range would.Again {
						runs = append(runs, again.Step)
					}
					for _, lists := range [][2][]string{{runs, ran}, {would.Kept, kept}} {
						slices.Sort(lists[0])
						slices.Sort(lists[1])
						if !slices.Equal(lists[0], lists[1]) {
							t.Errorf("told %v, was %v", lists[0], lists[1])
						}
					}
					if !repaired && !maps.Equal(failed, would.Items) {
						t.Errorf("told %v, failed again %v", would.Items, failed)
					}
					read := steps["r"]
					if n := read.Items(); n.In-n.Skipped != int64(bad) || n.In != int64(items) {
						t.Errorf("%d items are to be repeated, read: %+v", bad, n)
					}
					first = steps
				}
			})
			for _, step := range shape {
				if name := strings.Fields(step)[0]; bad > 0 && name[0] == 'w' && len(r.lines(name+".ndjson")) != items {
					t.Errorf("%s has %d items of %d", name, len(r.lines(name+".ndjson")), items)
				}
			}
		})
	}
}

// source writes what is read: items with the given values for the modifiers, but at least the least.
func (r *streamRig) source(values [][4]int, least int) {
	r.t.Helper()
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, "{\"id\":\"i%d\",\"m1\":%d,\"m2\":%d,\"m3\":%d}\n", i, max(v[1], least), max(v[2], least), max(v[3], least))
	}
	if err := os.WriteFile(filepath.Join(r.dir, "in.ndjson"), []byte(b.String()), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// streamOf is the document of a shape.
func streamOf(shape []string) string {
	var b strings.Builder
	b.WriteString("name: shape\nsettings: {streams: {batch_size: 5}}\nsteps:\n")
	for _, step := range shape {
		id, inputs, _ := strings.Cut(step, " ")
		module, config := "stream.read", "{path: in.ndjson}"
		switch id[0] {
		case 'm':
			module, config = "stream.map", fmt.Sprintf("{set: {q%s: '{{ 1 // item.%s }}'}}", id, id)
		case 'w':
			module, config = "stream.write", fmt.Sprintf("{path: %s.ndjson}", id)
		}
		fmt.Fprintf(&b, "  - {id: %s, module: %s, depends_on: [%s], config: %s}\n", id, module, strings.Join(strings.Fields(inputs), ", "), config)
	}
	return b.String()
}
