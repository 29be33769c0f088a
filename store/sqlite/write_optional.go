package sqlite

import (
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// writeOptional writes the parts that most commits lack: reports of running and spawned steps, waits, uses of blobs, outbox, work
// outside, taken signals. A commit without them costs two searches of its log and a check of each row. Sums of usage are written
// for all commits of a batch at once.
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
	return w.counts(c)
}

// reported stores the rows of the log's rarer events that later reads need.
func (w *writer) reported(c *store.Commit) error {
	seen, spawned, err := c.Reports()
	if err != nil {
		return err
	}
	for _, a := range seen {
		if err := w.run("seen_put", c.Execution, int64(a.Idx), int64(a.Epoch), c.Version); err != nil {
			return err
		}
	}
	for _, x := range spawned {
		if err := execute(w.spawned, c.Execution, int64(x.Idx), x.DependsOn, x.Created); err != nil {
			return err
		}
	}
	return nil
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

// blobUses stores which blobs an execution refers to.
func (w *writer) blobUses(c *store.Commit) error {
	for _, hash := range c.BlobHashes() {
		if err := w.run("blob_use_put", c.Execution, hash); err != nil {
			return err
		}
	}
	return nil
}
