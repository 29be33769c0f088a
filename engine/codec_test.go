package engine

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
)

// every kind of event, with all that its record carries.
func everyKind(at int64) []Event {
	spawn := Spawn{Name: "extract", Key: "extract:GX01.MP4", Action: "media.extract", DependsOn: []string{"scan"}, Params: json.RawMessage(`{"file":"ü <b>.mp4","n":9007199254740993}`),
		Retry: stepwell.Retry{MaxAttempts: 3, Backoff: time.Second, Multiplier: 1.5, MaxBackoff: time.Minute, Jitter: 0.5}, Timeout: time.Hour, Continue: true, NotIdempotent: true, Spawns: []string{"thumb"}}
	return []Event{
		{Kind: Start, At: at, Begin: &Begin{Params: json.RawMessage(`{"a":"日本","b":[1,2.5]}`), Window: 7, Revision: Revision, Seeds: []Seed{
			{Key: "scan", Status: stepwell.StepCompleted, Output: "@sha256:abc", Seq: 2}, {Key: "extract:1", By: "scan", Spawn: &spawn, Status: stepwell.StepPending}}}},
		{Kind: Done, At: at, Idx: 3, Epoch: 2, Started: at - 5000},
		{Kind: Done, At: at + 1, Idx: math.MaxInt32, Epoch: math.MaxUint32, Started: at + 1, Kept: true, Output: []byte(`{"x":"ü\n</script>","big":9007199254740993}`)},
		{Kind: Done, At: at, Idx: 4, Epoch: 1, Kept: true, Output: []byte("@blob/ünïcode \x01\"\\")},
		{Kind: Done, At: at, Idx: 4, Epoch: 1, Kept: true},
		{Kind: Failed, At: at, Idx: 1, Epoch: 1, Started: at, Worker: "host ü", Failure: &Failure{Code: stepwell.CodeTimeout, Message: "m\u2028", Hint: "h", Step: "s"}, Permanent: true, After: 3 * time.Second, Defer: true},
		{Kind: Skipped, At: at, Idx: 1, Epoch: 1, Reason: "nothing to do"},
		{Kind: Waiting, At: at, Idx: 1, Epoch: 1, Started: at - 1, Wait: &Wait{Until: at + 99, Resume: true, State: []byte{0, 255}, Output: []byte("@blob"), External: "job/17"}},
		{Kind: Running, At: at, Idx: 1, Epoch: 1, Started: at - 1, Worker: "w"},
		{Kind: Spawned, At: at, Idx: 1, Epoch: 1, Spawns: []Spawn{spawn, {Name: "n", Key: "n", Action: "n"}}},
		{Kind: TimerDue, At: at, Idx: -1, Epoch: 3},
		{Kind: Recovered, At: at},
		{Kind: Lost, At: at, Idx: 1, Epoch: 1, Worker: "w"},
		{Kind: Cancel, At: at, Reason: "not needed"},
		{Kind: Pause, At: at}, {Kind: Resume, At: at},
		{Kind: Restart, At: at, Step: "extract:1", FailedOnly: true},
		{Kind: Start, At: at, Begin: &Begin{Held: true, Priority: -3, Revision: Revision}},
		{Kind: Admit, At: at},
		{Kind: Done, At: at, Idx: 3, Epoch: 2, Started: at - 5000, Cost: math.MaxInt64},
		{Kind: Done, At: at, Idx: 3, Epoch: 2, Started: at, Kept: true, Output: []byte(`{"x":[1,"]"]}`), Cost: 1},
		{Kind: Done, At: at, Idx: 3, Epoch: 2, Started: at, Kept: true, Output: []byte("@blob"), Cost: 2},
		{Kind: Done, At: at, Idx: 3, Epoch: 2, Started: at, Usage: stepwell.Usage{InputTokens: math.MaxInt64, OutputTokens: 3}},
		{Kind: Done, At: at, Idx: 3, Epoch: 2, Started: at, Kept: true, Output: []byte(`{"x":1}`), Cost: 1, Usage: stepwell.Usage{AudioMillis: 1}},
		{Kind: DoneAll, At: at, Idx: 3, Epoch: 2, Started: at, Kept: true, Output: []byte(`{"x":1}`), Parts: []Part{{Idx: 4, Kept: true, Output: []byte("@blob")}, {Idx: 5}}, Partial: true, Cost: 7, Usage: stepwell.Usage{AudioMillis: 2500}},
		{Kind: Failed, At: at, Idx: 3, Epoch: 2, Started: at, Failure: &Failure{Code: stepwell.CodeFailed, Message: "m"}, Cost: 9, Usage: stepwell.Usage{InputTokens: 7, OutputTokens: 1}},
		{Kind: Failed, At: at, Idx: 3, Epoch: 2, Started: at, Failure: &Failure{Code: stepwell.CodeFailed, Message: "m"}, Member: 5, Partial: true,
			Parts: []Part{{Idx: 3, Kept: true, Output: []byte("@blob")}, {Idx: 4, Failure: &Failure{Code: stepwell.CodeFailed, Message: "m"}}, {Idx: 5, StoppedBy: 5}}},
		{Kind: Waiting, At: at, Idx: 1, Epoch: 1, Started: at - 1, Wait: &Wait{Await: true, Elsewhere: true, External: "approval:x", State: []byte("s")}, Cost: 1},
		{Kind: Settled, At: at, Idx: 1, Epoch: 1, Worker: "alice", Kept: true, Output: []byte(`{"approved":true}`), Cost: 3},
		{Kind: Settled, At: at, Idx: 1, Epoch: 1, Worker: "alice", Kept: true, Output: []byte("@blob")},
		{Kind: Settled, At: at, Idx: 1, Epoch: 1, Failure: &Failure{Code: stepwell.CodeFailed, Message: "no"}, Permanent: true},
		{Kind: Settled, At: at, Idx: 1, Epoch: 1, Reason: "not needed"},
	}
}

func TestBatchRoundTrip(t *testing.T) {
	for _, at := range []int64{0, 1, beginning} {
		b := &Batch{At: at + 10, Events: everyKind(at), Queued: []int32{1, 2, 3, 7, 9, 10}}
		raw, err := AppendBatch([]byte("before"), b)
		if err != nil {
			t.Fatal(err)
		}
		raw = bytes.TrimPrefix(raw, []byte("before"))
		if !json.Valid(raw) || !bytes.HasSuffix(raw, []byte(`,"q":[[1,3],[7,1],[9,2]]}`)) {
			t.Fatalf("%s", raw)
		}
		got, err := DecodeBatch(1, raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Events {
			b.Events[i].Kept = false // set anew by Apply
			for k := range b.Events[i].Parts {
				b.Events[i].Parts[k].Kept = false
			}
			if b.Events[i].Kind == Start && !bytes.Equal(canonical(got.Events[i].Begin), canonical(b.Events[i].Begin)) {
				t.Errorf("begin %s", canonical(got.Events[i].Begin))
			}
			if b.Events[i].Kind == Start || b.Events[i].Kind == Spawned {
				continue // their raw JSON is compared as values, below
			}
			if diff := cmp.Diff(b.Events[i], got.Events[i], cmp.AllowUnexported(Part{})); diff != "" {
				t.Errorf("event %d: %s", i, diff)
			}
		}
		if !same(&got.Events[9].Spawns[0], &b.Events[9].Spawns[0]) || got.Events[9].Spawns[0].Retry != b.Events[9].Spawns[0].Retry {
			t.Errorf("spawns: %s", canonical(got.Events[9].Spawns))
		}
		if got.At != b.At || !slices.Equal(got.Queued, b.Queued) {
			t.Errorf("at %d, queued %v", got.At, got.Queued)
		}
	}
}

// TestDoneIsShort: nearly all events are completed attempts, the log is made of them.
func TestDoneIsShort(t *testing.T) {
	done := Event{Kind: Done, At: beginning - 3, Idx: 17, Epoch: 1, Started: beginning - 1500, Output: []byte(`{"large":true}`)}
	paid, kept, used := done, done, done
	paid.Cost, kept.Cost, kept.Kept, used.OutputTokens = 5, 6, true, 8
	raw, err := AppendBatch(nil, &Batch{At: beginning, Events: []Event{done, paid, kept, used}})
	if want := `{"t":1767225600000000,"e":[[2,17,1,-3,-1497],[2,17,1,-3,-1497,null,5],[2,17,1,-3,-1497,{"large":true},6],[2,17,1,-3,-1497,null,0,0,8,0]]}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestDamagedBatch(t *testing.T) {
	for _, raw := range []string{``, `[]`, `{"t":1,"e":[[]]}`, `{"t":1,"e":[[3,1,1,0,0]]}`, `{"t":1,"e":[[2,1,-1,0,0]]}`, `{"t":1,"e":[[2,9999999999,1,0,0]]}`, `{"t":1,"e":[[2,1,1,0,"x"]]}`,
		`{"t":1,"e":[[2,1,1,0,0,null,"x"]]}`, `{"t":1,"e":[[2,1,1,0,0,null,1.5]]}`, `{"t":1,"e":[[2,1,1,0,0,null,1,1]]}`, `{"t":1,"e":[[2,1,1,0,0,null,1,1,1,"x"]]}`, `{"t":1,"e":[[2,1,1,0,0,null,1,1,1,1,1]]}`, `{"t":1,"e":[{"k":19}]}`, `{"t":1,"e":[{"k":17,"o":"x"}]}`,
		`{"t":1,"e":[{"k":1}]}`, `{"t":1,"e":[{"k":5}]}`, `{"t":1,"e":[{"k":99}]}`, `{"t":1,"e":[{"k":0}]}`, `{"t":1,"e":[null]}`, `{"t":1,"e":["x"]}`,
		`{"t":1,"e":[],"q":[[1,-1]]}`, `{"t":1,"e":[],"q":[[1,10000000],[1,1]]}`, `{"t":1,"e":[],"q":"x"}`} {
		if b, err := DecodeBatch(1, []byte(raw)); stepwell.CodeOf(err) != stepwell.CodeInternal {
			t.Errorf("%s: %v, %v", raw, b, err)
		}
	}
}

// FuzzDecodeBatch: for any bytes, decoding ends, a decoded batch can be written again, and replaying it ends with a
// state or an error.
func FuzzDecodeBatch(f *testing.F) {
	for _, ev := range everyKind(beginning) {
		raw, err := AppendBatch(nil, &Batch{At: beginning, Events: []Event{ev}, Queued: []int32{1}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"t":1,"e":[{"k":1,"d":0,"begin":{"revision":1}},[2,0,1,0,0,{"x":1}],{"k":7,"i":1,"p":1,"d":0,"spawn":[{"name":"a","key":"a:1","action":"a","depends_on":["b"]}]},{"k":14,"d":0,"step":"a"}]}`))
	p := compile(f, "name: fuzz\nsteps:\n  - {id: a, action: work, retry: {max_attempts: 2}}\n  - {id: b, action: work}\n  - {id: c, action: work, depends_on: [a], for_each: {items: \"{{ steps.a.outputs.x }}\"}}")
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := DecodeBatch(1, raw)
		if err != nil {
			return
		}
		for i := range b.Events {
			b.Events[i].Kept = len(b.Events[i].Output) > 0
		}
		again, err := AppendBatch(nil, b)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		c, err := DecodeBatch(1, again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		third, err := AppendBatch(nil, keep(c))
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s\n%s\n%v", again, third, err)
		}
		r := New(p, 1, "run")
		var fx Effects
		if err := r.Replay(b, &fx); err == nil && r.inflight < 0 {
			t.Fatalf("%d in flight", r.inflight)
		}
	})
}

func keep(b *Batch) *Batch {
	for i := range b.Events {
		b.Events[i].Kept = len(b.Events[i].Output) > 0
	}
	return b
}

// A start is written as any other event would be, whatever else it says.
func TestStartIsWrittenAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := &Begin{Window: rapid.IntRange(0, 3).Draw(t, "window"), Parent: rapid.SampledFrom([]string{"", "a<b"}).Draw(t, "parent"), Revision: Revision}
		if rapid.Bool().Draw(t, "params") {
			begin.Params = json.RawMessage(`{"a": "<&>"}`)
		}
		ev := Event{Kind: Start, At: rapid.Int64Range(0, 1<<50).Draw(t, "at"), Begin: begin, Idx: rapid.Int32Range(0, 1).Draw(t, "idx"),
			Worker: rapid.SampledFrom([]string{"", "w"}).Draw(t, "worker"), Cost: rapid.Int64Range(-1, 1).Draw(t, "cost"),
			Reason: rapid.SampledFrom([]string{"", "r"}).Draw(t, "reason")}
		got, err := appendEvent(nil, &ev, ev.At-5)
		want, wrong := appendObject(nil, &ev, ev.At-5)
		if err != nil || wrong != nil || string(got) != string(want) {
			t.Errorf("%s, %v; want %s, %v", got, err, want, wrong)
		}
	})
}

func TestProgressIsWrittenAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1<<40)
		p := Progress{n.Draw(t, "total"), n.Draw(t, "completed"), n.Draw(t, "failed"), n.Draw(t, "skipped"), n.Draw(t, "cancelled"), n.Draw(t, "running"),
			rapid.OneOf(rapid.Float64Range(0, 100), rapid.Float64Range(0, 1e-5), rapid.Float64Range(-1, 1e22)).Draw(t, "percent"), rapid.Int64Range(-1, 1).Draw(t, "cost"),
			stepwell.Usage{InputTokens: rapid.Int64Range(0, 1).Draw(t, "tokens")}, rapid.SampledFrom([]string{"", BreachedMaximum}).Draw(t, "breached"), rapid.Bool().Draw(t, "footprints")}
		got, err := p.AppendJSON(nil)
		want, wrong := json.Marshal(p)
		if err != nil || wrong != nil || string(got) != string(want) {
			t.Errorf("%s, %v; want %s, %v", got, err, want, wrong)
		}
	})
}

// An attempt that runs is written as any other event would be, whatever else it says.
func TestRunningIsWrittenAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := Event{Kind: Running, Idx: rapid.Int32().Draw(t, "idx"), Epoch: rapid.Uint32().Draw(t, "epoch"), At: rapid.Int64Range(0, 1<<50).Draw(t, "at"),
			Worker: rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9 "<&-]{0,9}`)).Draw(t, "worker")}
		ev.Started = rapid.SampledFrom([]int64{0, ev.At, ev.At - 7}).Draw(t, "started")
		ev.Cost, ev.Permanent = rapid.Int64Range(-1, 1).Draw(t, "cost"), rapid.Bool().Draw(t, "permanent")
		if rapid.Bool().Draw(t, "usage") {
			ev.AudioMillis = 3
		}
		got, err := appendEvent(nil, &ev, ev.At-5)
		want, wrong := appendObject(nil, &ev, ev.At-5)
		if err != nil || wrong != nil || string(got) != string(want) {
			t.Errorf("%s, %v; want %s, %v", got, err, want, wrong)
		}
	})
}
