// Package redisource takes events from Redis: from the entries of a stream, and from the messages of a channel.
//
// A stream loses nothing over restarts and outages of Stepwell: an entry is acknowledged in a consumer group when all that it
// causes is durable, and comes again until then; an event of a known id changes nothing. A channel is best effort: what is
// published while nobody listens, or faster than events can be taken, is lost.
//
// Stability: experimental until version 1.
package redisource

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/redislink"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/event"
)

// Source is a stream or a channel, and what its messages are taken for. A message is the JSON of an event; of another object, it
// is the event's data. In a stream it is the field event; without one, the fields are the data.
type Source struct {
	// URL is the address of the server: redis://user:password@host:port/db.
	URL     string `json:"url"`
	Stream  string `json:"stream"`
	Channel string `json:"channel"` // with * a pattern
	// Type is the type of events that have none. Defaults to the name of the stream or the channel.
	Type string `json:"type"`
	// From is where a stream is read from that has not been read before: from what comes (new), or from its beginning.
	From string `json:"from" enum:"new,beginning"`
	// Group is the consumer group, one for each installation of Stepwell. Defaults to stepwell.
	Group string `json:"group"`
}

// Options configure a Reader. Receive is required.
type Options struct {
	// Sources are read, by name.
	Sources map[string]Source
	// Receive takes an event; see event.Router.
	Receive func(ctx context.Context, e event.Event) (*event.Received, error)
	// MaxBody is the size of the largest message, in bytes. Defaults to 1 MiB.
	MaxBody int
	// Log takes the package's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

const (
	timeout   = 5 * time.Second // of a command that does not wait
	readWait  = 5 * time.Second
	readCount = 100
	maxKept   = 1000 // messages of a channel that wait to be taken
	lastPause = 5 * time.Second
	consumer  = "stepwell" // one process reads at a time; what it has not acknowledged comes to the next
)

// Reader reads sources.
type Reader struct {
	o       Options
	readers []*reader
}

// reader reads one source.
type reader struct {
	Source
	name   string
	o      *Options
	link   *redislink.Link
	exists bool // the group was there: if it is not any more, the server has lost everything
	away   bool // logged
}

// New makes a reader, which connects to nothing yet. CodeInvalid.
func New(o Options) (*Reader, error) {
	if o.MaxBody <= 0 {
		o.MaxBody = 1 << 20
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	r := &Reader{o: o}
	for _, name := range slices.Sorted(maps.Keys(o.Sources)) {
		s := o.Sources[name]
		if (s.Stream == "") == (s.Channel == "") {
			return nil, stepwell.Invalid("give one of them", "event_sources.%s names a stream and a channel, or neither", name)
		}
		option, err := redislink.Parse(s.URL, "stepwell-events", timeout)
		if err != nil {
			return nil, stepwell.Invalid(stepwell.HintOf(err), "event_sources.%s.url is not an address of a Redis server", name)
		}
		if s.Type == "" {
			s.Type = s.Stream + s.Channel
		}
		if s.Group == "" {
			s.Group = "stepwell"
		}
		r.readers = append(r.readers, &reader{Source: s, name: name, o: &r.o, link: redislink.New(option)})
	}
	return r, nil
}

// Run reads until ctx ends. It may be called again after that.
func (r *Reader) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, one := range r.readers {
		group.Go(func() error {
			one.run(ctx)
			return ctx.Err()
		})
	}
	if len(r.readers) == 0 {
		<-ctx.Done()
	}
	return errors.Join(group.Wait(), ctx.Err())
}

// Close ends the connections. Run must have returned.
func (r *Reader) Close() {
	for _, one := range r.readers {
		one.link.Close(timeout)
	}
}

// run reads the source, again after each outage.
func (r *reader) run(ctx context.Context) {
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		begun := time.Now()
		client, err := r.link.Get(ctx)
		if err == nil && r.Stream != "" {
			err = r.readStream(ctx, client)
		} else if err == nil {
			err = r.listen(ctx, client)
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > lastPause {
			pause = 50 * time.Millisecond
		}
		if !r.away {
			r.o.Log.Warn("a source of events is unavailable; it will be retried", "source", r.name, "error", err)
			r.away = true
		}
		_ = action.Pause(ctx, pause) // the loop looks at ctx
	}
}

func (r *reader) back() {
	if r.away {
		r.o.Log.Info("a source of events is back", "source", r.name)
		r.away = false
	}
}

// readStream takes the entries of a stream until an error: first those that were delivered before and not acknowledged.
func (r *reader) readStream(ctx context.Context, c rueidis.Client) error {
	own, release := c.Dedicate()
	defer release()
	defer context.AfterFunc(ctx, own.Close)() // the client looks at deadlines alone
	for from := "0"; ; {
		entries, err := r.read(ctx, own, from)
		switch e, refused := rueidis.IsRedisErr(err); {
		case refused && strings.HasPrefix(e.Error(), "NOGROUP"):
			err = r.createGroup(ctx, own)
			from = "0"
			if err == nil {
				continue
			}
			return err
		case err != nil:
			return err
		}
		r.back()
		r.exists = true
		if len(entries) == 0 {
			from = ">"
			continue
		}
		if err := r.takeAll(ctx, own, entries); err != nil {
			return err
		}
	}
}

func (r *reader) read(ctx context.Context, c rueidis.DedicatedClient, from string) ([]rueidis.XRangeEntry, error) {
	cmd := c.B().Xreadgroup().Group(r.Group, consumer).Count(readCount).Block(readWait.Milliseconds()).Streams().Key(r.Stream).Id(from).Build()
	ctx, end := context.WithTimeout(ctx, readWait+timeout)
	defer end()
	all, err := c.Do(ctx, cmd).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return all[r.Stream], err
}

// createGroup begins to read a stream. One that was read before and is not known any more is read from its beginning: what is
// in it now is new.
func (r *reader) createGroup(ctx context.Context, c rueidis.DedicatedClient) error {
	from := "$"
	if r.exists || r.From == "beginning" {
		from = "0"
	}
	err := c.Do(ctx, c.B().XgroupCreate().Key(r.Stream).Group(r.Group).Id(from).Mkstream().Build()).Error()
	if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "BUSYGROUP") {
		return nil
	}
	return err
}

// takeAll takes entries in their order and acknowledges them.
func (r *reader) takeAll(ctx context.Context, c rueidis.DedicatedClient, entries []rueidis.XRangeEntry) error {
	ids := make([]string, 0, len(entries))
	var err error
	for _, x := range entries {
		if len(x.FieldValues) > 0 { // else it was deleted meanwhile
			if err = r.take(ctx, r.entry(&x)); err != nil {
				break
			}
		}
		ids = append(ids, x.ID)
	}
	if len(ids) > 0 {
		ack := c.Do(context.WithoutCancel(ctx), c.B().Xack().Key(r.Stream).Group(r.Group).Id(ids...).Build()).Error()
		err = errors.Join(err, ack)
	}
	return err
}

// entry is the event of a stream's entry.
func (r *reader) entry(x *rueidis.XRangeEntry) event.Event {
	var e event.Event
	if text, ok := x.FieldValues["event"]; ok {
		e = r.decode(text)
	} else {
		e.Data = map[string]any{}
		for name, value := range x.FieldValues {
			e.Data[name] = value
		}
		e.Type = r.Type
	}
	if e.ID == "" {
		e.ID = "redis:" + stepwell.Head(r.Stream, 100) + ":" + x.ID
	}
	return e
}

// body is a message that is an event, also as Stepwell itself publishes it.
type body struct {
	event.Event
	OtherID   string          `json:"event_id"`
	Payload   resource.Object `json:"payload"`
	Timestamp time.Time       `json:"timestamp"`
}

// decode is the event of a message.
func (r *reader) decode(text string) event.Event {
	var b body
	if err := json.Unmarshal([]byte(text), &b); err == nil && (b.Type != "" || b.OtherID != "") {
		if b.ID == "" {
			b.ID = b.OtherID
		}
		if b.Data == nil {
			b.Data = b.Payload
		}
		if b.Time.IsZero() {
			b.Time = b.Timestamp
		}
		if b.Type == "" {
			b.Type = r.Type
		}
		return b.Event
	}
	e := event.Event{Type: r.Type}
	if json.Unmarshal([]byte(text), &e.Data) != nil || e.Data == nil {
		e.Data = map[string]any{"value": text}
	}
	return e
}

// take has an event received until that is durable. One that never can be is logged and left out. The error is the context's.
func (r *reader) take(ctx context.Context, e event.Event) error {
	if e.Source == "" {
		e.Source = "redis:" + stepwell.Head(r.Stream+r.Channel, 200)
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, lastPause) {
		_, err := r.o.Receive(ctx, e)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case trigger.Permanent(err) || r.tooLarge(&e):
			r.o.Log.Error("an event is left out", "source", r.name, "event", e.ID, "type", e.Type, "error", err)
			return nil
		}
		r.o.Log.Warn("an event cannot be taken now; it will be retried", "source", r.name, "event", e.ID, "error", err)
		if err := action.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// tooLarge reports whether an event never can be taken because of its size.
func (r *reader) tooLarge(e *event.Event) bool {
	raw, err := json.Marshal(e.Data)
	return err != nil || len(raw) > r.o.MaxBody
}

// listen takes the messages of a channel until an error.
func (r *reader) listen(ctx context.Context, c rueidis.Client) error {
	kept := make(chan event.Event, maxKept)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var taking errgroup.Group
	defer taking.Wait() //nolint:errcheck // the context's
	defer end()
	taking.Go(func() error {
		for {
			select {
			case e := <-kept:
				if err := r.take(ctx, e); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	subscribe := c.B().Subscribe().Channel(r.Channel).Build()
	if strings.Contains(r.Channel, "*") {
		subscribe = c.B().Psubscribe().Pattern(r.Channel).Build()
	}
	return c.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) {
		r.back()
		select {
		case kept <- r.decode(m.Message):
		default:
			r.o.Log.Error("events of a channel come faster than they can be taken: one is lost", "source", r.name)
		}
	})
}
