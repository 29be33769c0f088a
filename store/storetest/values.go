package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

var values = []promise{
	{"a mebibyte comes back whole", func(f *fixture) {
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		big := `"` + strings.Repeat("0123456789abcdef", 1<<16) + `"`
		c := f.first(1)
		c.Create.Params = []byte(big)
		row := done(0, 1, big)
		row.Input, row.Error = []byte(big), &engine.Failure{Message: big}
		log := []byte(`{"t":1,"e":[],"x":` + big + `}`)
		f.commit(c, store.Commit{Execution: 1, Version: 2, Log: log, Steps: []engine.StepRow{row}, Update: &store.Update{Outputs: []byte(big)}})
		f.must(f.PutMemo(f.Context(), store.Memo{Execution: 1, Key: "k", Value: []byte(big)}))
		f.must(f.AppendLogs(f.Context(), []store.LogLine{line(0, "info", big, 1)}))
		x := f.execution(1)
		s := f.steps(1, store.StepFilter{})[0]
		memo, _, err := f.Memo(f.Context(), 1, 0, "k")
		f.must(err)
		for what, got := range map[string]string{"params": string(x.Params), "outputs": string(x.Outputs), "output": string(s.Output), "input": string(s.Input),
			"message": s.Error.Message, "memo": string(memo), "line": f.messages(store.LogFilter{})[0], "log": string(all(f, f.StepLog(f.Context(), 1, 1))[0].Body[18 : len(log)-1])} {
			if got != big {
				f.Errorf("%s: %d bytes came back of %d", what, len(got), len(big))
			}
		}
	}},
	{"any text comes back as it was", func(f *fixture) {
		odd := "naïve 日本 🎬 'quote' \"double\" % _ \\ ; -- \u200b\u2028"
		f.must(f.PutDefinition(f.Context(), []byte("hash"), []byte(three)))
		c := f.first(1)
		c.Create.Pipeline, c.Create.Dir, c.Create.ID = odd, odd, odd
		row := done(3, 1, `{"t":"`+odd[:5]+`"}`)
		row.Key, row.Worker, row.Action = "s:"+odd, odd, odd
		f.commit(c, f.next(1, 2, row))
		x, err := f.Execution(f.Context(), odd[:9])
		f.must(err)
		equal(f, "execution", []string{x.ID, x.Pipeline, x.Dir}, []string{odd, odd, odd})
		list := f.steps(1, store.StepFilter{Key: "s:" + odd})
		equal(f, "steps", len(list), 1)
		equal(f, "step", []string{list[0].Worker, list[0].Action}, []string{odd, odd})
	}},
	{"bytes that are no text come back as they were", func(f *fixture) {
		f.begin(1)
		odd := "\x01a\x00b\xff\xfe\xc3(\x01\x0100"
		row := done(3, 1, `{"t":"`+odd+`"}`)
		row.Key, row.Worker, row.Action, row.Error = "s:1", odd, "do", &engine.Failure{Message: "nul \x00"}
		c := f.next(1, 2, row)
		c.Taken, c.Outbox = []string{odd}, []store.Outgoing{{Kind: odd, Execution: odd, Body: []byte(odd)}}
		f.must(f.AppendLogs(f.Context(), []store.LogLine{line(0, "info", odd, 1)}))
		_, err := f.PutSignal(f.Context(), store.Signal{Key: "other", ID: odd, Body: []byte(odd), At: time.UnixMicro(at(1))})
		f.must(err)
		f.commit(c)
		s := f.steps(1, store.StepFilter{Key: "s:1"})
		equal(f, "step", []string{s[0].Worker, string(s[0].Output), s[0].Error.Message}, []string{odd, string(row.Output), "nul \x00"})
		equal(f, "line", f.messages(store.LogFilter{}), []string{odd})
		list, err := f.SignalsFor(f.Context(), []string{"other"})
		f.must(err)
		equal(f, "signal", []string{list[0].ID, string(list[0].Body)}, []string{odd, odd})
		out, err := f.Outbox(f.Context(), 0, 9)
		f.must(err)
		equal(f, "outbox", []string{out[0].Kind, string(out[0].Body)}, []string{odd, odd})
	}},
	{"numbers keep all their digits", func(f *fixture) {
		f.begin(1)
		output := `{"big":123456789012345678901234567890,"small":1e-400,"order":1,"a":2,"order2":1.0}`
		f.commit(f.next(1, 2, done(0, 1, output)))
		equal(f, "output", string(f.steps(1, store.StepFilter{})[0].Output), output)
	}},
}

// many is a definition of n independent steps.
func many(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"name":"many","steps":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"step_%d","action":"do"}`, i)
	}
	b.WriteString("]}")
	return b.Bytes()
}

var sizes = []promise{
	{"a hundred thousand steps, a tenth of that in short mode", func(f *fixture) {
		const per = 500
		n := 100_000
		if testing.Short() {
			n /= 10
		}
		f.must(f.PutDefinition(f.Context(), []byte("hash"), many(n)))
		c := f.first(1)
		c.Log = fmt.Appendf(nil, `{"t":%d,"e":[{"k":1,"d":0,"begin":{"revision":1}}],"q":[[0,%d]]}`, at(1), n)
		f.commit(c)
		rows := make([]engine.StepRow, per)
		for v := range int64(n/per - 1) {
			for i := range rows {
				idx := int32(v)*per + int32(i)
				rows[i] = done(idx, idx+1, `{"value":12345}`)
			}
			f.commit(f.next(1, v+2, rows...))
		}
		counts := map[stepwell.StepStatus]int{}
		next := int32(0)
		for {
			page := f.steps(1, store.StepFilter{From: next, Limit: 10_000})
			if len(page) == 0 {
				break
			}
			for _, s := range page {
				if s.Idx != next || s.Key != fmt.Sprintf("step_%d", next) {
					f.Fatalf("step %d is %+v", next, s)
				}
				counts[s.Status]++
				next++
			}
		}
		equal(f, "steps by status", counts, map[stepwell.StepStatus]int{stepwell.StepCompleted: n - per, stepwell.StepQueued: per})
		seq := int32(0)
		for r, err := range f.Outputs(f.Context(), 1) {
			f.must(err)
			if seq++; r.Seq != seq {
				f.Fatalf("output %d came as %d", r.Seq, seq)
			}
		}
		equal(f, "outputs", int(seq), n-per)
	}},
}
