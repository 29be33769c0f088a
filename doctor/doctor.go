// Package doctor checks what a server with given settings needs on this machine: its database, disk, clock, master key,
// port and neighbours. A check changes nothing; MoveOldDatabase is the repair of `doctor --fix`.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/plugin"
)

// How a check can end.
const (
	OK   = "ok"
	Warn = "warn"
	Fail = "fail" // something would not work
)

// Finding is the result of a check.
type Finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to do
}

// Options are the settings of the server that is examined.
type Options struct {
	// App has the database, the master key, the services, the sandbox of commands and the log.
	App app.Options
	// AppErr is why App is incomplete. Defaults to nil.
	AppErr error
	// Dapr is what the server does through its sidecar; DaprErr is why it is incomplete. Default to no sidecar.
	Dapr    dapr.Settings
	DaprErr error
	// Policy says who may use commands, once there are API keys.
	Policy access.Policy
	Listen string
	// Exposed reports that other machines reach Listen, and without TLS.
	Exposed bool
	// Cert and Key are PEM files. Default to no TLS.
	Cert, Key string
	// JWKS is a file or a URL with the keys of tokens. Defaults to none.
	JWKS string
	// OTLP is the URL that takes traces. Defaults to none.
	OTLP string
	// State is the Redis server with the progress of projects. Defaults to none.
	State app.State
	// Plugins are the programs that the server starts. Default to none.
	Plugins map[string]plugin.Program
	// Kubeconfig is a file that kubectl uses. Defaults to none.
	Kubeconfig string
	// ReadFile reads Kubeconfig, at most so many bytes of it.
	ReadFile func(name string, limit int64) ([]byte, error)
}

// checkPatience bounds each request to something outside.
const checkPatience = 3 * time.Second

// examination is one run of the checks.
type examination struct {
	Options
	db     string
	found  []Finding
	sound  bool   // there is a database, and it is sound
	holder string // process that runs executions on the database
}

func newExamination(o Options) *examination {
	return &examination{Options: o, db: cmp.Or(o.App.DB, app.Database(o.App.Data))}
}

func (e *examination) fine(check, format string, args ...any) {
	e.found = append(e.found, Finding{Check: check, Status: OK, Detail: fmt.Sprintf(format, args...)})
}

func (e *examination) warn(check, advice, format string, args ...any) {
	e.found = append(e.found, Finding{check, Warn, fmt.Sprintf(format, args...), advice})
}

func (e *examination) fail(check, advice, format string, args ...any) {
	e.found = append(e.found, Finding{check, Fail, fmt.Sprintf(format, args...), advice})
}

// result fails with an error of the check, or is fine without one.
func (e *examination) result(err error, check, advice, format string, args ...any) {
	if err != nil {
		e.fail(check, advice, "%v", err)
		return
	}
	e.fine(check, format, args...)
}

// Examine runs all checks, the cheap ones first.
func Examine(ctx context.Context, o Options) []Finding {
	e := newExamination(o)
	for _, check := range []func(context.Context){
		e.dataDirectory, e.database, e.outside, e.largeOutputs, e.disk, e.clock, e.masterKey, e.commands, e.plugins, e.listener, e.certificate, e.tokens, e.tools, e.dapr, e.state, e.streams, e.kubernetes, e.clusters, e.telemetry,
	} {
		check(ctx)
	}
	return e.found
}

// MasterKey checks the master key of o.App alone.
func MasterKey(ctx context.Context, o Options) Finding {
	e := newExamination(o)
	e.masterKey(ctx)
	return e.found[0]
}
