package engine

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/stepwell/stepwell"
)

// Batch is the record of one run in one commit: the events in order and the time they were settled
// at. Its form is JSON, so that the databases' own views can read it:
//
//	{"t":<µs>,"e":[…],"q":[[idx,n],…]}
//
// where an event is the array [2,idx,epoch,Δat,Δstarted(,output(,cost(,in,out,audio)))] for a completed attempt — nearly
// all of them — and an object otherwise; Δat is relative to t, Δstarted to the event. "q" lists the
// steps queued by the batch as runs of n indexes.
type Batch struct {
	Version int64 // of the commit, which the record's place in the log says
	At      int64
	Events  []Event
	Queued  []int32
}

// AppendJSON adds the progress as encoding/json writes it. Every execution's row is written with it twice at least.
func (p Progress) AppendJSON(to []byte) ([]byte, error) {
	if p.Usage != (stepwell.Usage{}) || p.Breached != "" || p.Footprints || p.Percent != 0 && (p.Percent < 1e-6 || !(p.Percent < 1e21)) {
		raw, err := json.Marshal(p)
		return append(to, raw...), err
	}
	to = strconv.AppendInt(append(to, `{"total":`...), int64(p.Total), 10)
	to = strconv.AppendInt(append(to, `,"completed":`...), int64(p.Completed), 10)
	to = strconv.AppendInt(append(to, `,"failed":`...), int64(p.Failed), 10)
	to = strconv.AppendInt(append(to, `,"skipped":`...), int64(p.Skipped), 10)
	to = strconv.AppendInt(append(to, `,"cancelled":`...), int64(p.Cancelled), 10)
	to = strconv.AppendInt(append(to, `,"running":`...), int64(p.Running), 10)
	to = strconv.AppendFloat(append(to, `,"percentage":`...), p.Percent, 'f', -1, 64)
	if p.Cost != 0 {
		to = strconv.AppendInt(append(to, `,"cost_micros":`...), p.Cost, 10)
	}
	return append(to, '}'), nil
}

// IsRef reports whether stored outputs are a reference to a blob instead of JSON.
func IsRef(output []byte) bool { return len(output) > 0 && output[0] == '@' }

// wire is the record of an event: its fields but for times, which are relative, and outputs.
type wire struct {
	Event
	Started *int64     `json:"s,omitempty"`
	Output  string     `json:"o,omitempty"`
	Parts   []wirePart `json:"parts,omitempty"`
}

// wirePart holds kept outputs as text.
type wirePart struct {
	Idx       int32    `json:"i"`
	Output    string   `json:"o,omitempty"`
	Failure   *Failure `json:"f,omitempty"`
	StoppedBy int32    `json:"b,omitempty"`
}

// AppendBatch writes a batch.
func AppendBatch(dst []byte, b *Batch) ([]byte, error) {
	dst = append(dst, `{"t":`...)
	dst = strconv.AppendInt(dst, b.At, 10)
	dst = append(dst, `,"e":[`...)
	var err error
	for i := range b.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendEvent(dst, &b.Events[i], b.At); err != nil {
			return nil, err
		}
	}
	dst = append(dst, ']')
	if len(b.Queued) > 0 {
		dst = appendQueued(dst, b.Queued)
	}
	return append(dst, '}'), nil
}

func appendEvent(dst []byte, ev *Event, base int64) ([]byte, error) {
	if ev.Kind == Done {
		dst = append(dst, `[2,`...)
		for i, n := range [...]int64{int64(ev.Idx), int64(ev.Epoch), ev.At - base, ev.Started - ev.At} {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, n, 10)
		}
		if ev.Kept {
			dst = append(dst, ',')
			dst = appendOutput(dst, ev.Output)
		}
		if s := (stepwell.Spending{Cost: ev.Cost, Usage: ev.Usage}); !s.None() {
			if !ev.Kept {
				dst = append(dst, ",null"...)
			}
			dst = s.AppendList(dst)
		}
		return append(dst, ']'), nil
	}
	if ev.Kind == Running && ev.plain() {
		return appendRunning(dst, ev, base), nil
	}
	if ev.Kind == Start && ev.bare() {
		return appendStart(dst, ev, base)
	}
	return appendObject(dst, ev, base)
}

// bare reports whether an event says nothing but its kind, its time and what an execution begins with.
func (ev *Event) bare() bool {
	return ev.Begin != nil && ev.Idx == 0 && ev.Epoch == 0 && ev.Started == 0 && ev.Worker == "" && ev.saysNoMore()
}

// saysNoMore reports whether an event has none of the rarer fields, apart from Begin.
func (ev *Event) saysNoMore() bool {
	return ev.Cost <= 0 && ev.Usage == (stepwell.Usage{}) && ev.Failure == nil && ev.Wait == nil &&
		len(ev.Parts) == 0 && len(ev.Spawns) == 0 && len(ev.Seeds) == 0 && ev.Reason == "" && ev.Step == "" && ev.Member == 0 && ev.After == 0 &&
		!ev.Partial && !ev.Footprints && !ev.Permanent && !ev.Defer && !ev.FailedOnly && !ev.Fine
}

// appendStart writes what appendObject would of an event that is bare: every execution has one.
func appendStart(dst []byte, ev *Event, base int64) ([]byte, error) {
	dst = strconv.AppendInt(append(dst, `{"k":1,"d":`...), ev.At-base, 10)
	raw, err := json.Marshal(ev.Begin)
	if err != nil {
		return nil, err
	}
	return append(append(append(dst, `,"begin":`...), raw...), '}'), nil
}

// plain reports whether an event of an attempt that runs says nothing but that, in words that JSON writes as they are.
func (ev *Event) plain() bool {
	for i := range len(ev.Worker) {
		if c := ev.Worker[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return ev.Started != 0 && ev.Worker != "" && ev.Begin == nil && ev.saysNoMore()
}

// appendRunning writes what appendObject would of an event that is plain: there is one for each attempt that lasts.
func appendRunning(dst []byte, ev *Event, base int64) []byte {
	dst = append(dst, `{"k":6`...)
	if ev.Idx != 0 {
		dst = strconv.AppendInt(append(dst, `,"i":`...), int64(ev.Idx), 10)
	}
	if ev.Epoch != 0 {
		dst = strconv.AppendUint(append(dst, `,"p":`...), uint64(ev.Epoch), 10)
	}
	dst = strconv.AppendInt(append(dst, `,"d":`...), ev.At-base, 10)
	dst = append(append(append(dst, `,"w":"`...), ev.Worker...), `","s":`...)
	return append(strconv.AppendInt(dst, ev.Started-ev.At, 10), '}')
}

// appendObject writes an event of any kind but Done.
func appendObject(dst []byte, ev *Event, base int64) ([]byte, error) {
	w := wire{Event: *ev}
	w.At, w.Cost = ev.At-base, max(ev.Cost, 0)
	w.setOutputs(ev)
	if ev.Started != 0 {
		ago := ev.Started - ev.At
		w.Started = &ago
	}
	raw, err := json.Marshal(&w)
	if err != nil {
		return nil, fmt.Errorf("record of event %d: %w", ev.Kind, err)
	}
	return append(dst, raw...), nil
}

func (w *wire) setOutputs(ev *Event) {
	if ev.Kind != DoneAll && ev.Kind != Settled && ev.Kind != Failed {
		return
	}
	if ev.Kept {
		w.Output = string(ev.Output)
	}
	for i := range ev.Parts {
		part := wirePart{Idx: ev.Parts[i].Idx, Failure: ev.Parts[i].Failure, StoppedBy: ev.Parts[i].StoppedBy}
		if ev.Parts[i].Kept {
			part.Output = string(ev.Parts[i].Output)
		}
		w.Parts = append(w.Parts, part)
	}
}

// readOutputs is setOutputs in the other direction.
func (w *wire) readOutputs(ev *Event) error {
	outputs := []*[]byte{&ev.Output}
	texts := []string{w.Output}
	if len(w.Parts) > 0 {
		ev.Parts = make([]Part, len(w.Parts))
	}
	for i, part := range w.Parts {
		ev.Parts[i].Idx, ev.Parts[i].Failure, ev.Parts[i].StoppedBy = part.Idx, part.Failure, part.StoppedBy
		outputs, texts = append(outputs, &ev.Parts[i].Output), append(texts, part.Output)
	}
	for i, text := range texts {
		if text == "" {
			continue
		}
		if *outputs[i] = []byte(text); text[0] != '{' && !IsRef(*outputs[i]) {
			return fmt.Errorf("an output that is not an object")
		}
	}
	return nil
}

func appendOutput(dst, out []byte) []byte {
	switch {
	case len(out) == 0:
		return append(dst, "null"...)
	case IsRef(out):
		quoted, _ := json.Marshal(string(out)) // a string always can be
		return append(dst, quoted...)
	}
	return append(dst, out...)
}

// appendQueued writes indexes as runs.
func appendQueued(dst []byte, q []int32) []byte {
	dst = append(dst, `,"q":[`...)
	for i := 0; i < len(q); {
		j := i + 1
		for j < len(q) && q[j] == q[j-1]+1 {
			j++
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendInt(dst, int64(q[i]), 10)
		dst = append(dst, ',')
		dst = strconv.AppendInt(dst, int64(j-i), 10)
		dst = append(dst, ']')
		i = j
	}
	return append(dst, ']')
}

// DecodeBatch reads the form that AppendBatch writes. Outputs of completed attempts exist only for steps that
// templates read.
func DecodeBatch(version int64, body []byte) (*Batch, error) {
	b := &Batch{}
	if err := b.Decode(version, body); err != nil {
		return nil, err
	}
	return b, nil
}

// Decode is DecodeBatch into b, for those who read a log batch by batch. It uses the memory of the events and of the queued steps that b
// held before: whoever keeps some of them copies them.
func (b *Batch) Decode(version int64, body []byte) error {
	if b.decodeWritten(version, body) {
		return nil
	}
	return b.decodeAny(version, body)
}

// decodeAny reads a batch in any form of its JSON, and says what is wrong with it.
func (b *Batch) decodeAny(version int64, body []byte) error {
	var raw struct {
		T int64             `json:"t"`
		E []json.RawMessage `json:"e"`
		Q json.RawMessage   `json:"q"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return corrupt(err)
	}
	*b = Batch{Version: version, At: raw.T, Events: make([]Event, len(raw.E))}
	for i, e := range raw.E {
		if err := decodeEvent(e, raw.T, &b.Events[i]); err != nil {
			return corrupt(err)
		}
	}
	var err error
	b.Queued, err = AppendRuns(nil, raw.Q)
	return err
}

// AppendRuns adds the indexes of a list of steps as the log writes it, [[first, count], …], to others. No list at
// all is an empty one.
func AppendRuns(to []int32, list []byte) ([]int32, error) {
	if len(list) == 0 {
		return to, nil
	}
	var runs [][2]int32
	if err := json.Unmarshal(list, &runs); err != nil {
		return nil, corrupt(err)
	}
	before := len(to)
	for _, run := range runs {
		if run[1] < 0 || len(to)-before+int(run[1]) > MaxSteps {
			return nil, corrupt(fmt.Errorf("%d steps at once", run[1]))
		}
		for i := range run[1] {
			to = append(to, run[0]+i)
		}
	}
	return to, nil
}

func corrupt(err error) error {
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the step log is damaged", Err: err}
}

func decodeEvent(raw json.RawMessage, base int64, ev *Event) error {
	if len(raw) > 0 && raw[0] == '[' {
		return decodeDone(raw, base, ev)
	}
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	*ev = w.Event
	ev.At += base
	if w.Kind == DoneAll || w.Kind == Settled || w.Kind == Failed {
		if err := w.readOutputs(ev); err != nil {
			return err
		}
	}
	if w.Started != nil {
		ev.Started = *w.Started + ev.At
	}
	switch {
	case w.Kind < Start || w.Kind >= Kinds || w.Kind == Done:
		return fmt.Errorf("an event of the unknown kind %d", w.Kind)
	case w.Kind == Start && w.Begin == nil, w.Kind == Waiting && w.Wait == nil:
		return fmt.Errorf("an event of kind %d without its content", w.Kind)
	}
	return nil
}

func decodeDone(raw json.RawMessage, base int64, ev *Event) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	if len(parts) < 5 {
		return fmt.Errorf("an event of %d parts", len(parts))
	}
	var n [5]int64
	for i := range n {
		v, err := strconv.ParseInt(string(parts[i]), 10, 64)
		if err != nil {
			return err
		}
		n[i] = v
	}
	if n[0] != int64(Done) || n[1] < math.MinInt32 || n[1] > math.MaxInt32 || n[2] < 0 || n[2] > math.MaxUint32 {
		return fmt.Errorf("an event %d of step %d, epoch %d", n[0], n[1], n[2])
	}
	*ev = Event{Kind: Done, Idx: int32(n[1]), Epoch: uint32(n[2]), At: base + n[3]}
	ev.Started = ev.At + n[4]
	var s stepwell.Spending
	if err := s.ReadList(parts[min(6, len(parts)):]); err != nil {
		return err
	}
	ev.Cost, ev.Usage = s.Cost, s.Usage
	if len(parts) < 6 || string(parts[5]) == "null" {
		return nil
	}
	return decodeOutput(parts[5], ev)
}

// decodeOutput reads a completed attempt's outputs: an object, or a reference.
func decodeOutput(out json.RawMessage, ev *Event) error {
	switch out[0] {
	case '{':
		ev.Output = out
	case '"':
		var ref string
		if err := json.Unmarshal(out, &ref); err != nil {
			return err
		}
		if ev.Output = []byte(ref); !IsRef(ev.Output) {
			return fmt.Errorf("an output that is the text %q", ref)
		}
	default:
		return fmt.Errorf("an output that is not an object")
	}
	return nil
}
