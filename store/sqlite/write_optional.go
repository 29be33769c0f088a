package sqlite

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// writeOptional writes the parts that most commits lack: reports of running and spawned steps, waits, uses of blobs, outbox, work
// outside, taken signals. A commit without them costs two searches of its log and a check of each row.
func (w *writer) writeOptional(c *store.Commit) error {
	if err := w.reported(c); err != nil {
		return err
	}
	for i := range c.Steps {
		if r := &c.Steps[i]; r.External != "" && r.Status == stepwell.StepWaiting {
			w.waits[c.Execution] = true
			if err := w.run("waiting_put", c.Execution, int64(r.Idx), r.External); err != nil {
				return err
			}
		}
	}
	if err := w.blobUses(c); err != nil {
		return err
	}
	for i := range c.Outbox {
		o := &c.Outbox[i]
		if err := w.run("outgoing_put", o.Kind, o.Execution, blob(o.Body), o.At.UnixMicro()); err != nil {
			return err
		}
	}
	for i := range c.Outside {
		if err := w.outside(&c.Outside[i]); err != nil {
			return err
		}
	}
	for _, key := range c.Taken {
		if err := w.run("signal_take", c.Execution, key); err != nil {
			return err
		}
	}
	return nil
}

// reported stores the rows of the log's rarer events that later reads need.
func (w *writer) reported(c *store.Commit) error {
	spawns, running := bytes.Contains(c.Log, []byte(`"spawn":[`)), bytes.Contains(c.Log, []byte(`{"k":6,`))
	if !spawns && !running {
		return nil
	}
	b, err := engine.DecodeBatch(c.Version, c.Log)
	if err != nil {
		return err
	}
	for i := range b.Events {
		if ev := &b.Events[i]; ev.Kind == engine.Running {
			if err := w.run("seen_put", c.Execution, int64(ev.Idx), int64(ev.Epoch), c.Version); err != nil {
				return err
			}
		}
	}
	if !spawns {
		return nil
	}
	return w.spawnedRows(c, b)
}

// endWaits removes the waits of an ended execution. Another process's rows stay until the execution is removed; the
// steps' rows say that none waits.
func (w *writer) endWaits(no int64, status stepwell.ExecutionStatus) error {
	if !status.Terminal() || !w.waits[no] {
		return nil
	}
	delete(w.waits, no)
	return w.run("waiting_end", no)
}

// unnamed lists the steps whose rows a reader could not find by the log's events: all ended steps except, nearly all,
// completed attempts in the short form.
func unnamed(c *store.Commit) string {
	var runs [][2]int32
	log := named{log: c.Log}
	for i := range c.Steps {
		r := &c.Steps[i]
		if !r.Status.Terminal() || r.Status == stepwell.StepCompleted && log.has(r.Idx) {
			continue
		}
		if last := len(runs) - 1; last >= 0 && runs[last][0]+runs[last][1] == r.Idx {
			runs[last][1]++
		} else {
			runs = append(runs, [2]int32{r.Idx, 1})
		}
	}
	if runs == nil {
		return ""
	}
	raw, _ := json.Marshal(runs) // numbers always can be
	return string(raw)
}

// maxMisses bounds the cost of a log in another order than the rows: after so many steps not found behind the one
// before, all are listed.
const maxMisses = 16

// named looks for completed attempts in a log, which has them in the order of the rows.
type named struct {
	log    []byte
	at     int
	misses int
	buf    [24]byte
}

func (n *named) has(idx int32) bool {
	if n.misses > maxMisses {
		return false
	}
	event := append(strconv.AppendInt(append(n.buf[:0], "[2,"...), int64(idx), 10), ',')
	if i := bytes.Index(n.log[n.at:], event); i >= 0 {
		n.at += i
		return true
	}
	n.misses++
	return bytes.Contains(n.log[:n.at], event)
}

// blobUses notes which blobs an execution refers to: its outputs may be references, and its log holds some.
func (w *writer) blobUses(c *store.Commit) error {
	var found []string
	found = appendHashes(found, c.Log)
	for i := range c.Steps {
		if out := c.Steps[i].Output; engine.IsRef(out) {
			found = appendHashes(found, out)
		}
	}
	if c.Update != nil {
		found = appendHashes(found, c.Update.Outputs)
	}
	for _, hash := range found {
		if err := w.run("blob_use_put", c.Execution, hash); err != nil {
			return err
		}
	}
	return nil
}

// refBegin is how a reference begins, and hashSize the length of the hash that follows.
const (
	refBegin = "@sha256:"
	hashSize = 64
)

// appendHashes finds the references in a text. One too many keeps a blob for longer; none is missed.
func appendHashes(to []string, raw []byte) []string {
	for {
		i := bytes.Index(raw, []byte(refBegin))
		if i < 0 || len(raw) < i+len(refBegin)+hashSize {
			return to
		}
		raw = raw[i+len(refBegin):]
		if hash := string(raw[:hashSize]); strings.Trim(hash, "0123456789abcdef") == "" {
			to = append(to, hash)
		}
	}
}
