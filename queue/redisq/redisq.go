// Package redisq keeps dispatched steps in Redis lists, from which any program may take them (specification: pipeline-steps,
// "Redis Queue Integration").
//
// The list of a queue is pipeline:steps:NAME, that of the default queue pipeline:steps. Steps are taken from the right: BRPOP
// pipeline:steps gets all of them, those of a higher priority first. A queue with three lists has pipeline:steps:high and
// pipeline:steps:low beside, for priorities above and below 0. The lists are a hint: they may lose and repeat everything, and
// the node that pushed a step knows whether it is still wanted.
//
// Stability: the names of the lists are kept.
package redisq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/redislink"
)

// Key is the list of the default queue; those of others begin with it.
const Key = "pipeline:steps"

// most is how many values one command carries.
const most = 1000

// Options configure Lists. URL is required.
type Options struct {
	// URL is the address: redis://user:password@host:port/db, rediss:// for TLS. The database defaults to 0.
	URL string
	// Queues are those whose steps are in lists, by name; "default" stands for itself and for all queues that Nodes does not
	// have. Defaults to all.
	Queues map[string]Queue
	// Nodes are the names of queues whose steps are not in lists.
	Nodes []string
	// Timeout bounds a command that does not wait. Defaults to 2 s.
	Timeout time.Duration
}

// Queue is how a queue is kept in Redis.
type Queue struct {
	// Lists is 1, or 3 for a list of each of the priorities above, at and below 0. Defaults to 1.
	Lists int
}

// Lists are the lists on one server. Their methods may be called from many goroutines.
type Lists struct {
	o       Options
	link    *redislink.Link
	checked atomic.Bool
	old     atomic.Bool // the server has no BLMPOP
}

// Open connects to nothing yet. CodeInvalid: a malformed address.
func Open(o Options) (*Lists, error) {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Queues == nil {
		o.Queues = map[string]Queue{queue.DefaultQueue: {}}
	}
	c, err := redislink.Parse(o.URL, "stepwell-queue", o.Timeout)
	if err != nil {
		return nil, err
	}
	return &Lists{o: o, link: redislink.New(c)}, nil
}

// Close ends the connections. No call may be under way.
func (l *Lists) Close() { l.link.Close(l.o.Timeout) }

// Names are the queues whose steps are in lists, as far as they are named.
func (o *Options) Names() []string {
	if o.Queues == nil {
		return []string{queue.DefaultQueue}
	}
	return slices.Sorted(maps.Keys(o.Queues))
}

// Has reports whether the steps of a queue are in lists.
func (l *Lists) Has(name string) bool {
	_, has := l.queue(name)
	return has
}

func (l *Lists) queue(name string) (Queue, bool) {
	if name == "" {
		name = queue.DefaultQueue
	}
	if q, ok := l.o.Queues[name]; ok {
		return q, true
	}
	if slices.Contains(l.o.Nodes, name) {
		return Queue{}, false
	}
	q, ok := l.o.Queues[queue.DefaultQueue]
	return q, ok
}

// keyOf is the list of a queue.
func keyOf(name string) string {
	if name == "" || name == queue.DefaultQueue {
		return Key
	}
	return Key + ":" + name
}

// keysOf are all lists that a queue may have, the first to be taken from first.
func keysOf(name string) []string {
	k := keyOf(name)
	return []string{k + ":high", k, k + ":low"}
}

// Name is the list of a queue's steps of ordinary priority.
func (l *Lists) Name(queue string) string { return keyOf(queue) }

// Defers reports whether messages of a class have to stay out of the list of a queue while it is long: in a single list, those
// below the others.
func (l *Lists) Defers(name string, class int) bool {
	q, _ := l.queue(name)
	return class < 0 && q.Lists != 3
}

// Push adds messages, to be taken in their order, behind the others of the same class, and in a single list a higher class
// before all that is there.
func (l *Lists) Push(ctx context.Context, name string, class int, messages [][]byte) error {
	q, _ := l.queue(name)
	key, first := keyOf(name), class > 0
	if q.Lists == 3 {
		key, first = keysOf(name)[1-class], false
	}
	for len(messages) > 0 {
		some := messages[:min(len(messages), most)]
		rest := messages[len(some):]
		if first { // the last one pushed is the first one taken
			some = messages[len(messages)-len(some):]
			rest = messages[:len(messages)-len(some)]
		}
		if err := l.push(ctx, key, some, first); err != nil {
			return err
		}
		messages = rest
	}
	return nil
}

// Return puts messages back into the list that Take named: in their order, to be taken next, or behind all others.
func (l *Lists) Return(ctx context.Context, list string, messages []string, behind bool) error {
	raw := make([][]byte, len(messages))
	for i, m := range messages {
		raw[i] = []byte(m)
	}
	return l.push(ctx, list, raw, !behind)
}

// push makes one command.
func (l *Lists) push(ctx context.Context, key string, messages [][]byte, first bool) error {
	ctx, end := context.WithTimeout(ctx, l.o.Timeout)
	defer end()
	c, err := l.client(ctx)
	if err != nil {
		return err
	}
	values := make([]string, len(messages))
	for i, m := range messages {
		if first {
			values[len(values)-1-i] = rueidis.BinaryString(m)
		} else {
			values[i] = rueidis.BinaryString(m)
		}
	}
	if first {
		return c.Do(ctx, c.B().Rpush().Key(key).Element(values...).Build()).Error()
	}
	return c.Do(ctx, c.B().Lpush().Key(key).Element(values...).Build()).Error()
}

// Empty reports whether there is nothing in the lists of a queue.
func (l *Lists) Empty(ctx context.Context, name string) (bool, error) {
	ctx, end := context.WithTimeout(ctx, l.o.Timeout)
	defer end()
	c, err := l.client(ctx)
	if err != nil {
		return false, err
	}
	n, err := c.Do(ctx, c.B().Exists().Key(keysOf(name)...).Build()).AsInt64() // an empty list does not exist
	return n == 0, err
}

// Ping asks whether the server is there, and can serve lists. CodeInvalid: it never can.
func (l *Lists) Ping(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, l.o.Timeout)
	defer end()
	c, err := l.client(ctx)
	if err != nil {
		return err
	}
	return c.Do(ctx, c.B().Ping().Build()).Error()
}

// client is the connection to a server that has been found able to serve lists.
func (l *Lists) client(ctx context.Context) (rueidis.Client, error) {
	c, err := l.link.Get(ctx)
	if err != nil || l.checked.Load() {
		return c, err
	}
	info, err := c.Do(ctx, c.B().Info().Section("cluster").Build()).ToString()
	if err != nil {
		return nil, err
	}
	if redislink.Field(info, "cluster_enabled") == "1" {
		return nil, stepwell.Invalid("use a server of its own, with replicas and Sentinel if it must not fail",
			"the Redis server is a cluster: workers take from several lists in one command, which a cluster does not serve")
	}
	l.checked.Store(true)
	return c, nil
}

// Pop takes at most so many messages from the lists of queues, all of the highest class that there is, and waits for the first.
// None, and no error: none came in time. What the server has handed over when the connection fails is lost.
func (l *Lists) Pop(ctx context.Context, queues []string, count int, wait time.Duration) ([]string, error) {
	_, out, err := l.Take(ctx, queues, count, wait)
	return out, err
}

// Take is Pop, and names the list for Return.
func (l *Lists) Take(ctx context.Context, queues []string, count int, wait time.Duration) (list string, out []string, err error) {
	ctx, end := context.WithTimeout(ctx, wait+l.o.Timeout)
	defer end()
	c, err := l.client(ctx)
	if err != nil {
		return "", nil, err
	}
	own, release := c.Dedicate()
	defer release()
	defer context.AfterFunc(ctx, own.Close)() // the client looks at deadlines alone
	var keys []string
	for class := range 3 {
		for _, name := range queues {
			keys = append(keys, keysOf(name)[class])
		}
	}
	if !l.old.Load() {
		list, out, err = l.pop(ctx, own, keys, count, wait)
		if e, ok := rueidis.IsRedisErr(err); !ok || !strings.HasPrefix(e.Error(), "unknown command") {
			return list, out, err
		}
		l.old.Store(true)
	}
	return l.popOld(ctx, own, keys, count, wait)
}

// pop is Pop with Redis 7 or later.
func (l *Lists) pop(ctx context.Context, c rueidis.DedicatedClient, keys []string, count int, wait time.Duration) (list string, out []string, err error) {
	parts, err := c.Do(ctx, c.B().Blmpop().Timeout(wait.Seconds()).Numkeys(int64(len(keys))).Key(keys...).Right().Count(int64(max(count, 1))).Build()).ToArray()
	if rueidis.IsRedisNil(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	if len(parts) != 2 {
		return "", nil, fmt.Errorf("BLMPOP answers with %d parts", len(parts))
	}
	if list, err = parts[0].ToString(); err != nil {
		return "", nil, err
	}
	out, err = parts[1].AsStrSlice()
	return list, out, err
}

// popOld is Pop without BLMPOP.
func (l *Lists) popOld(ctx context.Context, c rueidis.DedicatedClient, keys []string, count int, wait time.Duration) (list string, out []string, err error) {
	pair, err := c.Do(ctx, c.B().Brpop().Key(keys...).Timeout(wait.Seconds()).Build()).AsStrSlice()
	if rueidis.IsRedisNil(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	if len(pair) != 2 {
		return "", nil, errors.New("BRPOP answers without a value")
	}
	out = pair[1:]
	if count > 1 {
		more, err := c.Do(ctx, c.B().Rpop().Key(pair[0]).Count(int64(count-1)).Build()).AsStrSlice()
		if err == nil { // else what came is here, and the next call tells why
			out = append(out, more...)
		}
	}
	return pair[0], out, nil
}
