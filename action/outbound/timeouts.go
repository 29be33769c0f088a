package outbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// Timeouts bound the phases of one exchange; 0 means only Total bounds it.
type Timeouts struct {
	Connect   time.Duration // name look-up and connection
	TLS       time.Duration // TLS handshake
	FirstByte time.Duration // from the end of the request to the first byte of the response
	Idle      time.Duration // without a byte of either body moving
	Total     time.Duration // the whole exchange, redirects and both bodies included. Defaults to 5 minutes
}

// watchdog ends an exchange whose current phase takes too long. Connections are made in the background and may serve
// another exchange in the end, so their events count only while this exchange has none.
type watchdog struct {
	limits Timeouts
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	timer     *time.Timer
	phase     string
	limit     time.Duration
	until     time.Time
	connected bool
	answered  bool
	ended     bool
	firstByte time.Time
}

func newWatchdog(limits Timeouts, cancel context.CancelCauseFunc) *watchdog {
	return &watchdog{limits: limits, cancel: cancel}
}

// enter starts the clock of a phase. The caller holds the lock.
func (w *watchdog) enter(phase string, limit time.Duration) {
	if w.ended {
		return
	}
	w.phase, w.limit, w.until = phase, limit, time.Now().Add(limit)
	switch {
	case limit <= 0:
		w.until = time.Time{}
	case w.timer == nil:
		w.timer = time.AfterFunc(limit, w.fire)
	default:
		w.timer.Reset(limit)
	}
}

// touch says that something moved.
func (w *watchdog) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.until.IsZero() {
		w.until = time.Now().Add(w.limit)
	}
}

// awaiting runs the idle clock only while a read of the response's body waits: time that the reader spends in between
// is not the server's fault.
func (w *watchdog) awaiting(more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more {
		w.enter(phaseIdle, w.limits.Idle)
	} else {
		w.until = time.Time{}
	}
}

// fire ends the exchange, unless something moved since the timer was set.
func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.until.IsZero() {
		return
	}
	if left := time.Until(w.until); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.cancel(timedOut(w.phase, w.limit))
}

// stop ends the watch.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// phases are the names of the limits, as parameters and messages have them.
const (
	phaseConnect   = "connect"
	phaseTLS       = "tls"
	phaseFirstByte = "first_byte"
	phaseIdle      = "idle"
	phaseTotal     = "total"
)

var phaseText = map[string]string{phaseConnect: "no connection within %s", phaseTLS: "no TLS handshake within %s",
	phaseFirstByte: "no response within %s", phaseIdle: "nothing moved for %s", phaseTotal: "the exchange took longer than %s"}

func timedOut(phase string, limit time.Duration) *Failure {
	return &Failure{Kind: KindTimeout, Phase: phase, Err: &stepwell.Error{Code: stepwell.CodeTimeout,
		Message: fmt.Sprintf(phaseText[phase], limit), Hint: "the limit is timeouts." + phase}}
}

// trace makes the hooks that move the watchdog from phase to phase, at every redirect anew.
func (w *watchdog) trace() *httptrace.ClientTrace {
	do := func(f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	}
	connecting := func(phase string, limit time.Duration) {
		do(func() {
			if !w.connected {
				w.enter(phase, limit)
			}
		})
	}
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			do(func() { w.connected, w.answered = false, false; w.enter(phaseConnect, w.limits.Connect) })
		},
		TLSHandshakeStart: func() { connecting(phaseTLS, w.limits.TLS) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { connecting(phaseConnect, w.limits.Connect) },
		GotConn:           func(httptrace.GotConnInfo) { do(func() { w.connected = true; w.enter(phaseIdle, w.limits.Idle) }) },
		WroteRequest: func(httptrace.WroteRequestInfo) {
			do(func() {
				if !w.answered {
					w.enter(phaseFirstByte, w.limits.FirstByte)
				}
			})
		},
		GotFirstResponseByte: func() {
			do(func() { w.answered, w.firstByte = true, time.Now(); w.enter(phaseIdle, w.limits.Idle) })
		},
	}
}
