// Package redisstate keeps the progress of projects in Redis, in the hash smap:proj:{id} that other programs read and count in
// too (HINCRBY done 1): fields status, total, done and errors, and for this package alone sql_done, sql_errors, rev and epoch.
//
// It has a client and connections of its own, in a database of its own (1). Redis evicts by server and not by database, so the
// server should have maxmemory-policy noeviction; what it loses all the same is written again from the store.
//
// Stability: the key and the four fields are kept.
package redisstate

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/redislink"
	"github.com/stepwell/stepwell/store"
)

// Options say which server, and how long it is waited for.
type Options struct {
	// URL is the address: redis://user:password@host:port, rediss:// for TLS.
	URL string
	// DB is the database; a negative one is 0. Defaults to 1.
	DB int
	// TTL is how long a project lives after its last change. Defaults to 604,800 s.
	TTL time.Duration
	// Pauses are those before each further try. Defaults to 1, 2 and 4 s.
	Pauses []time.Duration
	// Timeout bounds a try. Defaults to 1 s.
	Timeout time.Duration
	// Rest is how long a server that has failed four times in a row is not asked. Defaults to 5 s.
	Rest time.Duration
	// Shutdown bounds the wait of Close for operations under way. Defaults to 5 s.
	Shutdown time.Duration
	// Log hears of failures, one line of progress.LevelCritical for each outage among them. Defaults to no log.
	Log *slog.Logger
}

// pipeline is how many projects are written in one round trip.
const pipeline = 500

//go:embed merge.lua
var mergeLua string

func (o *Options) validate() (rueidis.ClientOption, error) {
	for to, normal := range map[*time.Duration]time.Duration{&o.TTL: 604_800 * time.Second, &o.Timeout: time.Second, &o.Rest: 5 * time.Second, &o.Shutdown: 5 * time.Second} {
		if *to <= 0 {
			*to = normal
		}
	}
	if o.Pauses == nil {
		o.Pauses = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c, err := redislink.Parse(o.URL, "stepwell-state", o.Timeout)
	c.SelectDB = 1
	if o.DB != 0 {
		c.SelectDB = max(o.DB, 0)
	}
	return c, err
}

// State is a Redis server. Its methods may be called from many goroutines.
type State struct {
	o     Options
	link  *redislink.Link
	calls calls
	sha   string

	mu     sync.Mutex
	policy string // maxmemory-policy when it was read last
	looked int64  // the generation in which it was
}

var _ progress.State = (*State)(nil)

// Open makes a client. The server need not be there yet. CodeInvalid: a malformed address.
func Open(o Options) (*State, error) {
	c, err := o.validate()
	if err != nil {
		return nil, err
	}
	s := &State{o: o, link: redislink.New(c), looked: -1, sha: digest(mergeLua)}
	s.calls.init(&s.o, s.link)
	return s, nil
}

// Name is "redis".
func (*State) Name() string { return "redis" }

// Merge brings the hashes to the state of the store by one script for each, in pipelines of 500. It tries four times, with 1, 2
// and 4 seconds between.
func (s *State) Merge(ctx context.Context, op string, list []store.ProjectProgress, touch bool) ([]progress.Held, error) {
	out := make([]progress.Held, 0, len(list))
	for len(list) > 0 {
		some := list[:min(len(list), pipeline)]
		list = list[len(some):]
		var held []progress.Held
		err := s.calls.do(ctx, op, projectsOf(some), s.o.Pauses, func(ctx context.Context, c rueidis.Client) (err error) {
			held, err = s.merge(ctx, c, op, some, touch)
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, held...)
	}
	return out, nil
}

func projectsOf(list []store.ProjectProgress) string {
	if len(list) == 1 {
		return list[0].Project
	}
	return fmt.Sprintf("%s and %d more", list[0].Project, len(list)-1)
}

// merge makes one try of a pipeline. A project that the server refuses, for the type of its key, is left out, or is the error if it
// is the only one.
func (s *State) merge(ctx context.Context, c rueidis.Client, op string, list []store.ProjectProgress, touch bool) ([]progress.Held, error) {
	answers := c.DoMulti(ctx, s.commands(c, list, touch)...)
	for i := range answers {
		if e, ok := rueidis.IsRedisErr(answers[i].Error()); ok && e.IsNoScript() {
			if err := c.Do(ctx, c.B().ScriptLoad().Script(mergeLua).Build()).Error(); err != nil {
				return nil, err
			}
			answers = c.DoMulti(ctx, s.commands(c, list, touch)...) // those that were made already change nothing
			break
		}
	}
	held := make([]progress.Held, len(list))
	for i := range answers {
		fields, err := answers[i].AsStrSlice()
		if err == nil {
			held[i], err = parse(fields)
		}
		switch {
		case err == nil:
		case len(list) == 1 || redislink.Transient(err):
			return nil, err
		default:
			s.o.Log.ErrorContext(ctx, "the Redis server refuses the progress of a project", "operation", op, "project", list[i].Project, "error", err)
		}
	}
	return held, nil
}

func (s *State) commands(c rueidis.Client, list []store.ProjectProgress, touch bool) []rueidis.Completed {
	out := make([]rueidis.Completed, len(list))
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	ttl, touched := n(int64(s.o.TTL/time.Second)), ""
	if touch {
		touched = "1"
	}
	for i := range list {
		p := &list[i]
		out[i] = c.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(key(p.Project)).Arg("1", p.Status, n(p.Total), n(p.Done-p.OtherDone), n(p.Errors-p.OtherErrors),
			n(p.OtherDone), n(p.OtherErrors), n(p.Rev), n(p.Epoch), ttl, touched).Build()
	}
	return out
}

// key is the hash of a project.
func key(project string) string { return "smap:proj:" + project }

// parse reads the script's answer.
func parse(fields []string) (h progress.Held, err error) {
	if len(fields) != 8 {
		return h, fmt.Errorf("the script answers %q", fields)
	}
	var sqlDone, sqlErrors int64
	for i, to := range []*int64{&h.Total, &h.Done, &h.Errors, &sqlDone, &sqlErrors, &h.Epoch} {
		if *to, err = strconv.ParseInt(fields[i+1], 10, 64); err != nil {
			return h, err
		}
	}
	h.Status, h.OtherDone, h.OtherErrors = fields[0], max(h.Done-sqlDone, 0), max(h.Errors-sqlErrors, 0)
	return h, nil
}

// Forget deletes the hashes of projects. It tries once.
func (s *State) Forget(ctx context.Context, projects []string) error {
	if len(projects) == 0 {
		return nil
	}
	keys := make([]string, len(projects))
	for i, project := range projects {
		keys[i] = key(project)
	}
	return s.calls.do(ctx, "delete", projects[0], nil, func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Del().Key(keys...).Build()).Error()
	})
}

// Events is the name of the channel or stream to which the events of finished projects go.
const Events = "smap.events"

// maxEvents is about how many events a stream keeps.
const maxEvents = 100_000

// Publish sends an event to the channel Events or, durably, to the stream of that name, as its field event. It tries once.
func (s *State) Publish(ctx context.Context, stream bool, project string, event []byte) error {
	return s.calls.do(ctx, "publish "+store.JobCompleted, project, nil, func(ctx context.Context, c rueidis.Client) error {
		if stream {
			return c.Do(ctx, c.B().Xadd().Key(Events).Maxlen().Almost().Threshold(strconv.Itoa(maxEvents)).Id("*").FieldValue().FieldValue("event", string(event)).Build()).Error()
		}
		return c.Do(ctx, c.B().Publish().Channel(Events).Message(string(event)).Build()).Error()
	})
}

// Load reads a project in one round trip (HGETALL). found is false if there is no hash; none is created.
func (s *State) Load(ctx context.Context, project string) (h progress.Held, found bool, err error) {
	err = s.calls.do(ctx, "read", project, nil, func(ctx context.Context, c rueidis.Client) error {
		fields, err := c.Do(ctx, c.B().Hgetall().Key(key(project)).Build()).AsStrMap()
		if err != nil || len(fields) == 0 {
			return err
		}
		number := func(name string) int64 {
			n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 where another program has written something else
			return n
		}
		found = true
		h.ProjectState = store.ProjectState{Project: project, Status: fields["status"], Total: number("total"), Done: number("done"), Errors: number("errors")}
		h.Epoch = number("epoch")
		h.OtherDone, h.OtherErrors = max(h.Done-number("sql_done"), 0), max(h.Errors-number("sql_errors"), 0)
		return nil
	})
	return h, found && err == nil, err
}

// Connected asks whether the server is there. The generation changes with each connection and each end of an outage.
func (s *State) Connected(ctx context.Context) (generation int64, err error) {
	err = s.calls.do(ctx, "connect", "", nil, func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Ping().Build()).Error()
	})
	if err != nil {
		return 0, err
	}
	generation = s.link.Opened() + s.calls.recovered.Load()
	s.warn(ctx, generation)
	return generation, nil
}

// Away reports whether an outage goes on: the server has failed four times in a row and has not answered since.
func (s *State) Away() bool { return s.calls.away.Load() }

// EvictionPolicy is the server's maxmemory-policy: noeviction is the one that loses no projects. "": it does not say.
func (s *State) EvictionPolicy(ctx context.Context) (policy string, err error) {
	err = s.calls.do(ctx, "read its settings", "", nil, func(ctx context.Context, c rueidis.Client) error {
		info, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
		policy = redislink.Field(info, "maxmemory_policy")
		return err
	})
	return policy, err
}

// warn reads the server's policy of eviction once for each generation, and warns of one that may lose projects.
func (s *State) warn(ctx context.Context, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked == generation {
		return
	}
	policy, err := s.EvictionPolicy(ctx)
	if err != nil {
		return
	}
	if policy != "noeviction" && policy != "" && policy != s.policy {
		s.o.Log.WarnContext(ctx, "the Redis server may evict the progress of projects: it evicts by server, not by database",
			"maxmemory-policy", policy, "hint", "set maxmemory-policy noeviction, or name a server of its own for the state")
	}
	s.policy, s.looked = policy, generation
}

// Close refuses new operations, waits for those under way, together at most Options.Shutdown, and closes the connections.
func (s *State) Close() error {
	begun := time.Now()
	s.calls.close(s.o.Shutdown)
	s.link.Close(max(s.o.Shutdown-time.Since(begun), 0))
	return nil
}

// digest names a script as Redis does.
func digest(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
