package stream

import (
	"cmp"
	"encoding/json"

	"github.com/stepwell/stepwell/stream/durable"
)

// past is the state that a checkpoint holds of earlier runs.
type past struct {
	complete bool // it came to its end, or failed in a way that a run like the present one does not go on from
	stopped  string
	run      string                     // the execution that wrote last
	first    string                     // the execution that began the file
	others   bool                       // others than that one went on with it
	ended    bool                       // it came to its end, without failing
	done     map[string]json.RawMessage // steps that completed in an attempt that failed
	begun    bool                       // there is something
	cursors  map[int]cursorNote
	states   map[int]json.RawMessage
	spool    int64
	prints   int64 // of the execution run
	keys     int64
	runs     int       // that began after another was complete
	total    []int64   // keys in the file, by end
	durable  [][]int64 // how many of the items written were durable in the end, by opening and end
	late     map[lateItem]bool
	bags     []*keyBag // keys that count, by end
}

// lateItem is an item that was refused when its key was in the file already.
type lateItem struct {
	opening, end int
	number       int64
}

// readCheckpoint reads a file twice: for the final state, and then for the keys that count. later decides whether an
// unfinished run is over all the same. It returns the length of the intact part.
func readCheckpoint(path string, want header, ends int, later func(*past) bool) (*past, int64, error) {
	check := func(h header) error {
		if h.Format != want.Format || h.Version != want.Version {
			return durable.Damaged("it is %q, version %d", h.Format, h.Version)
		}
		if h.Config != want.Config {
			return durable.Damaged("it is another segment's")
		}
		return nil
	}
	p := &past{cursors: map[int]cursorNote{}, states: map[int]json.RawMessage{}, total: make([]int64, ends),
		durable: [][]int64{make([]int64, ends)}, late: map[lateItem]bool{}}
	size, err := eachBlock(path, func(h header) error {
		p.first = h.Run
		return check(h)
	}, p.addBlock)
	p.run, p.ended = cmp.Or(p.run, p.first), p.complete && p.stopped == ""
	p.complete = p.complete || later(p)
	if err != nil || p.keys == 0 {
		return p, size, err
	}
	p.bags = make([]*keyBag, ends)
	for i := range p.bags {
		p.bags[i] = newKeyBag(p.total[i])
	}
	at, opening := 0, 0
	_, err = eachBlock(path, check, func(b block, keys []byte) error {
		if b.Begin {
			at++
		}
		if b.Open {
			opening++
		}
		_, err := eachKey(keys, func(i int64, root int, seq int64, key [16]byte) {
			number := b.From + i
			if number >= p.durable[opening][b.End] || p.late[lateItem{opening, b.End, number}] {
				return
			}
			if p.complete || at < p.runs || seq > p.cursors[root].Seq {
				p.bags[b.End].add(key)
			}
		})
		return err
	})
	return p, size, err
}

// addBlock adds a block to the state.
func (p *past) addBlock(b block, keys []byte) error {
	if b.End < 0 || b.End >= len(p.total) {
		return durable.Damaged("a block of end %d", b.End)
	}
	n := int64(0)
	items, err := eachKey(keys, func(int64, int, int64, [16]byte) { n++ })
	if err != nil || items != int64(b.Keys) {
		return durable.Damaged("a block with %d keys instead of %d", items, b.Keys)
	}
	if b.Open {
		p.run = cmp.Or(b.Run, p.run)
		p.others = p.others || b.Run != p.first
		p.durable = append(p.durable, make([]int64, len(p.total)))
	}
	at := len(p.durable) - 1
	p.durable[at][b.End] = max(p.durable[at][b.End], b.Durable)
	for _, number := range b.Late {
		p.late[lateItem{at, b.End, number}] = true
	}
	p.begun = true
	if b.Begin {
		clear(p.cursors)
		p.runs++
	}
	for _, c := range b.Cursors {
		p.cursors[c.Root] = c
	}
	if b.State != nil {
		p.states[b.End] = b.State
	}
	p.spool, p.prints, p.complete, p.stopped, p.done = b.Spool, b.Prints, b.Complete, b.Stopped, outcomes(p.done, &b)
	p.total[b.End] += n
	p.keys += n
	return nil
}

// outcomes are the steps that have completed, as of a block: until all have, or a later run begins.
func outcomes(before map[string]json.RawMessage, b *block) map[string]json.RawMessage {
	if b.Done != nil || b.Begin || b.Complete {
		return b.Done
	}
	return before
}
