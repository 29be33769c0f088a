package queue

import (
	"slices"
	"strings"
	"time"
)

// mostHeads is among how many messages of a queue the oldest is looked for.
const mostHeads = 50_000

// Standing is how a queue is.
type Standing struct {
	Name string
	Limits
	Out     int // leases
	Waiting int // messages
	// Pause is how long its rate lets it give nothing; 0: it may.
	Pause time.Duration
	// Oldest is the message that has waited the longest; nil: none waits, or of none it is known since when. Only those are
	// looked at that are the next of their execution and priority, and not more than 50,000 of them.
	Oldest *Message
	// Holders have the leases of a queue whose Concurrency is limited, who has one the longest first.
	Holders []Holder
}

// Holder is who has a lease.
type Holder struct {
	Token uint64
	Body  any // of the message
	// Where the message is, as its consumer knows: since when, and which worker or which list outside of the process has it.
	Since        time.Time
	Worker, List string
}

// Full reports whether as many leases are out as may be.
func (s *Standing) Full() bool { return s.Concurrency != 0 && s.Out >= s.Concurrency }

// Look is what of queues is looked at besides their numbers. The zero value is nothing.
type Look struct {
	Oldest  bool
	Holders int // of each queue, at most
	// Waits reports whether a message is still wanted: some wait that nobody misses. It is called under the queue's lock. Defaults
	// to all.
	Waits func(*Message) bool
}

// Standings are how the queues with limits are, and DefaultQueue, which stands for all others; in order of their names. Leases of
// DefaultQueue are counted only where some queue has limits. Its cost grows with the executions of which something waits, and with
// the leases, as far as they are looked at.
func (q *Memory) Standings(look Look) []Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lanes) == 0 {
		return []Standing{{Name: DefaultQueue, Waiting: q.main.size + q.main.away.size, Oldest: q.main.oldest(&look)}}
	}
	now := time.Now()
	holders := q.holders(look.Holders)
	var out []Standing
	for name, n := range q.byName {
		out = append(out, Standing{Name: name, Limits: n.limits, Out: n.out, Waiting: n.size + n.away.size, Pause: n.pause(now), Oldest: n.oldest(&look), Holders: holders[n]})
	}
	slices.SortFunc(out, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// holders are the first leases of the queues whose concurrency is limited. The caller holds the lock.
func (q *Memory) holders(most int) map[*lane][]Holder {
	if most <= 0 {
		return nil
	}
	all := map[*lane][]Holder{}
	for token, g := range q.out {
		if g.of.limits.Concurrency == 0 {
			continue
		}
		list := all[g.of]
		if len(list) == most && token > list[most-1].Token {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, token, func(h Holder, token uint64) int {
			if h.Token < token {
				return -1
			}
			return 1
		})
		list = slices.Insert(list, at, Holder{Token: token, Body: g.body})
		all[g.of] = list[:min(len(list), most)]
	}
	return all
}

// oldest is the message that has waited the longest. The caller holds the lock.
func (n *lane) oldest(look *Look) (found *Message) {
	if !look.Oldest {
		return nil
	}
	looked := 0
	for _, s := range []*levels{&n.levels, &n.away} {
		for _, l := range s.list {
			for _, b := range l.ring {
				for m := b.head; m < len(b.list) && looked < mostHeads; m++ {
					looked++
					one := &b.list[m]
					if one.Since == 0 || found != nil && one.Since >= found.Since {
						break
					}
					if look.Waits == nil || look.Waits(one) {
						found = one
						break
					}
				}
			}
		}
	}
	if found == nil {
		return nil
	}
	same := *found
	return &same
}
