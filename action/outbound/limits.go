package outbound

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/stepwell/stepwell"

	"github.com/stepwell/stepwell/action"
)

// Limit bounds the requests to one host or with one credential.
type Limit struct {
	Concurrent int     `json:"concurrent"` // at once. Defaults to 32; -1: any number
	PerSecond  float64 `json:"per_second"` // started per second. Defaults to 0: any number
	Burst      int     `json:"burst"`      // started at once after a pause. Defaults to PerSecond, at least 1
	// TokensPerMinute limits the tokens reported to Response.Spend; an excess delays the next request. Defaults to 0:
	// any number.
	TokensPerMinute int `json:"tokens_per_minute"`
}

// limits are the gates of all hosts and credentials. Unused gates are forgotten when there are too many.
type limits struct {
	o     Options
	mu    sync.Mutex
	gates map[string]*gate
}

// maxGates bounds the hosts and credentials that are remembered while idle.
const maxGates = 4096

// gate is the remaining allowance of one host or one credential.
type gate struct {
	slots   chan struct{} // nil: any number
	rate    *rate.Limiter // nil: any rate
	tokens  *rate.Limiter // nil: any number per minute
	breaker *gobreaker.TwoStepCircuitBreaker[any]

	mu    sync.Mutex
	cool  time.Time // nothing before
	retry time.Time // when an open breaker lets somebody try
	users int       // guarded by limits.mu
}

func newLimits(o Options) *limits {
	if o.Breaker.Failures == 0 {
		o.Breaker.Failures = 10
	}
	if o.Breaker.Open <= 0 {
		o.Breaker.Open = 30 * time.Second
	}
	return &limits{o: o, gates: map[string]*gate{}}
}

func (l *limits) newGate(limit Limit, host string) *gate {
	g := &gate{}
	if limit.Concurrent == 0 {
		limit.Concurrent = 32
	}
	if limit.Concurrent > 0 {
		g.slots = make(chan struct{}, limit.Concurrent)
	}
	if limit.PerSecond > 0 {
		burst := limit.Burst
		if burst <= 0 {
			burst = max(1, int(min(limit.PerSecond, math.MaxInt32)))
		}
		g.rate = rate.NewLimiter(rate.Limit(limit.PerSecond), burst)
	}
	if n := limit.TokensPerMinute; n > 0 {
		g.tokens = rate.NewLimiter(rate.Limit(float64(n)/60), n)
	}
	if host != "" && l.o.Breaker.Failures > 0 {
		g.breaker = l.newBreaker(g, host)
	}
	return g
}

func (l *limits) newBreaker(g *gate, host string) *gobreaker.TwoStepCircuitBreaker[any] {
	return gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:        host,
		Timeout:     l.o.Breaker.Open,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= l.o.Breaker.Failures },
		IsExcluded:  func(err error) bool { return err == errExcluded }, //nolint:errorlint // a mark, never wrapped
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				g.mu.Lock()
				g.retry = time.Now().Add(l.o.Breaker.Open)
				g.mu.Unlock()
			}
		},
	})
}

// errExcluded marks an exchange that is no evidence about the host.
var errExcluded = fmt.Errorf("not counted")

// use finds the gate of a key and keeps it until leave.
func (l *limits) use(key string, limit Limit, host string) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, ok := l.gates[key]
	if !ok {
		if len(l.gates) >= maxGates {
			l.forget()
		}
		g = l.newGate(limit, host)
		l.gates[key] = g
	}
	g.users++
	return g
}

func (l *limits) leave(g *gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.users--
}

// forget drops the gates that would let anybody through. The caller holds the lock.
func (l *limits) forget() {
	now := time.Now()
	for key, g := range l.gates {
		if g.users == 0 && g.idle(now) {
			delete(l.gates, key)
		}
	}
}

func (g *gate) idle(now time.Time) bool {
	g.mu.Lock()
	cool := g.cool
	g.mu.Unlock()
	return !cool.After(now) && (g.rate == nil || g.rate.TokensAt(now) >= float64(g.rate.Burst())) &&
		(g.tokens == nil || g.tokens.TokensAt(now) >= float64(g.tokens.Burst())) &&
		(g.breaker == nil || g.breaker.State() == gobreaker.StateClosed && g.breaker.Counts().ConsecutiveFailures == 0)
}

// place identifies the gates of a request.
type place struct{ gate, host, hostPort, credential string }

// turn is a request's leave to go ahead.
type turn struct {
	limits *limits
	gates  []*gate // of the service (Request.Gate) or the host, and of the credential if there is one
	door   *gate   // of the host, where Request.Gate names a service behind it: counts failed connections only
	held   int     // how many of the gates have given a slot
	report func(error)
	reach  func(error)
	once   sync.Once
}

// wait waits for the leave of the gates, at most Options.MaxWait and ctx. A turn that does
// not come in time is a Failure of KindBusy that says when to ask again.
func (l *limits) wait(ctx context.Context, at place) (*turn, error) {
	t := &turn{limits: l}
	name := at.hostPort
	if at.gate != "" {
		name = at.gate
		t.door = l.use("door "+at.hostPort, Limit{Concurrent: -1}, at.hostPort)
	}
	t.gates = append(t.gates, l.use("host "+name, l.limit(at), name))
	if at.credential != "" {
		t.gates = append(t.gates, l.use("credential "+at.credential, l.o.PerCredential, ""))
	}
	patience := time.Now().Add(l.o.MaxWait)
	if end, ok := ctx.Deadline(); ok { // time to send the request must be left
		patience = earlier(patience, time.Now().Add(time.Until(end)/2))
	}
	for _, g := range t.gates {
		if err := g.pass(ctx, patience, name); err != nil {
			t.end()
			return nil, err
		}
		t.held++
	}
	if err := t.ask(name, at.hostPort); err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// limit is the limit of a service or a host in Options.
func (l *limits) limit(at place) Limit {
	names := []string{at.hostPort, at.host}
	if at.gate != "" {
		names = []string{at.gate}
	}
	for _, name := range names {
		if limit, ok := l.o.Hosts[name]; ok {
			return limit
		}
	}
	return l.o.PerHost
}

// ask asks the breakers; an open one is a Failure of KindBusy.
func (t *turn) ask(name, hostPort string) (err error) {
	if t.door != nil {
		if t.reach, err = t.door.allow(hostPort, t.limits.o.Breaker.Failures); err != nil {
			return err
		}
	}
	t.report, err = t.gates[0].allow(name, t.limits.o.Breaker.Failures)
	return err
}

// allow returns the function that reports the exchange's outcome to the breaker; without a breaker it is nil.
func (g *gate) allow(name string, failures int) (func(error), error) {
	if g.breaker == nil {
		return nil, nil
	}
	done, err := g.breaker.Allow()
	if err == nil {
		return done, nil
	}
	g.mu.Lock()
	after := time.Until(g.retry)
	g.mu.Unlock()
	return nil, busy(max(after, time.Second), fmt.Sprintf("%s has failed %d times in a row and is left alone for a while", name, failures))
}

// tell reports the exchange's outcome to the breaker; nil is success, errExcluded is no evidence.
func (t *turn) tell(err error) {
	if t.report != nil {
		t.report(err)
		t.report = nil
	}
}

// reached reports to the breaker of the address whether there was a connection.
func (t *turn) reached(err error) {
	if t.reach != nil {
		t.reach(err)
		t.reach = nil
	}
}

// end gives everything back. It may be called twice.
func (t *turn) end() {
	t.once.Do(func() {
		t.tell(errExcluded)
		t.reached(errExcluded)
		if t.door != nil {
			t.limits.leave(t.door)
		}
		for i, g := range t.gates {
			if i < t.held && g.slots != nil {
				<-g.slots
			}
			t.limits.leave(g)
		}
	})
}

// pass takes a slot and waits out the rate and a cool-down.
func (g *gate) pass(ctx context.Context, patience time.Time, host string) error {
	if after := g.cooling(); after > time.Until(patience) {
		return busy(after, host+" asked to be left alone for a while")
	}
	if g.slots != nil {
		timer := time.NewTimer(time.Until(patience))
		defer timer.Stop()
		select {
		case g.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return busy(time.Second, fmt.Sprintf("%d requests to %s are under way already", cap(g.slots), host))
		}
	}
	err := g.pace(ctx, patience, host)
	if err != nil && g.slots != nil {
		<-g.slots
	}
	return err
}

// pace waits until the rate and the cool-down permit one more request.
func (g *gate) pace(ctx context.Context, patience time.Time, host string) error {
	if g.rate != nil {
		r := g.rate.Reserve()
		if delay := r.Delay(); delay > time.Until(patience) {
			r.Cancel()
			return busy(delay, "the rate of requests to "+host+" is used up")
		} else if err := action.Pause(ctx, delay); err != nil {
			r.Cancel()
			return err
		}
	}
	for after := g.cooling(); after > 0; after = g.cooling() {
		if after > time.Until(patience) {
			return busy(after, host+" asked to be left alone for a while")
		}
		if err := action.Pause(ctx, after); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) cooling() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.cool)
}

// coolDown keeps everybody away from the host for a while (stac-and-media §2: a 429 slows all workers).
func (t *turn) coolDown(d time.Duration) { t.gates[0].coolDown(d) }

// spend charges tokens to the host and the credential. An overdrawn gate blocks requests until its minutes cover the
// debt.
func (t *turn) spend(n int) {
	now := time.Now()
	for _, g := range t.gates {
		if g.tokens == nil {
			continue
		}
		for left := n; left > 0; left -= g.tokens.Burst() {
			part := g.tokens.ReserveN(now, min(left, g.tokens.Burst()))
			if delay := part.DelayFrom(now); delay > 0 {
				g.coolDown(min(delay, maxAfter))
			}
		}
	}
}

func (g *gate) coolDown(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.cool) {
		g.cool = until
	}
}

func busy(after time.Duration, message string) error {
	return &Failure{Kind: KindBusy, After: after, Told: true, Err: &stepwell.Error{Code: stepwell.CodeUnavailable, Message: message}}
}
