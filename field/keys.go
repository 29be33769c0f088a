package field

import (
	"math"

	"github.com/stepwell/stepwell/api/columns"
)

// keyColumns are the keys of steps: key has the bytes of all of them, each without the beginning that it shares with the one before,
// key_shared the length of that beginning, and key_length that of the rest. Steps without a row have none.
func (t *Table) keyColumns(from, to int) []columns.Data {
	t.mu.Lock()
	defer t.mu.Unlock()
	shared, length, text := make([]uint32, to-from), make([]uint32, to-from), make([]uint8, 0, 8*(to-from))
	before := ""
	for i := from; i < to; i++ {
		if t.node[i] == nowhere {
			continue
		}
		key := t.key(int32(i))
		same := 0
		for same < len(key) && same < len(before) && key[same] == before[same] && same < math.MaxUint8 {
			same++
		}
		shared[i-from], length[i-from] = uint32(same), uint32(len(key)-same)
		text = append(text, key[same:]...)
		before = key
	}
	return []columns.Data{columns.Narrow("key_shared", shared), columns.Narrow("key_length", length), {Name: "key", U8: text}}
}

// planned are the places of the actions and queues of steps in lists of names, and these lists.
func (t *Table) planned(from, to int) (action, queue []uint32, actions, queues []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	action, queue = make([]uint32, to-from), make([]uint32, to-from)
	as, qs := newNames(), newNames()
	for i := from; i < to; i++ {
		if t.node[i] == nowhere {
			continue
		}
		b := t.blockOf(t.node[i])
		if b.graph == nil {
			continue // a step that another one has added
		}
		step := &b.graph.Steps[t.node[i]-b.first]
		action[i-from] = as.place(actionOf(step))
		if step.Policy != nil && step.Body == nil {
			queue[i-from] = qs.place(step.Policy.Queue)
		}
	}
	return action, queue, as.list, qs.list
}
