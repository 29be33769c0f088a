// Package service has the internal.* actions: calls to the services of a platform, described by a table
// of endpoints (specification: budpipeline §3.3, §6.1). A call goes through a Dapr sidecar's invocation
// API, or straight to the service's base URL; everything else about it is the same.
//
// The step's parameters are the body of the call and fill the placeholders of its path; the service's
// answer, a JSON object, is the step's outputs. An asynchronous service answers with a workflow_id: the
// step then gives its worker back and asks for the status until the work has ended. The workflow_id is
// recorded before the first question, so that a crash resumes asking and submits nothing twice.
//
// Every call carries X-Execution-Id, X-Step-Id and Idempotency-Key. What may be tried again is decided by
// package outbound. Stable.
package service

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
)

// Endpoint is one row of the table: the call of an action.
type Endpoint struct {
	Action  string
	Aliases []string
	Summary string `json:"summary"`
	App     string `json:"app"`    // name of the service, and its app id unless Options.AppIDs has another
	Path    string `json:"path"`   // "/api/v1/deployments/{endpoint_id}"; {placeholders} are parameters
	Method  string `json:"method"` // Defaults to POST
	// Async says that the service answers with a workflow_id and works on.
	Async bool `json:"async"`
	// StatusPath is where the status of the work is asked for; {workflow_id} is filled in. Defaults to
	// "/api/v1/workflows/{workflow_id}/status".
	StatusPath string `json:"status_path"`
	// CancelPath is where asynchronous work is cancelled; {workflow_id} is filled in. Defaults to none: it cannot be.
	CancelPath   string `json:"cancel_path"`
	CancelMethod string `json:"cancel_method"` // Defaults to DELETE
	// Callback sends the member callback_url with an asynchronous call: the address that the service calls when the work
	// has ended. The status is then asked for every five minutes only. Without a server's public address there is
	// none, and the status is asked for every Poll.
	Callback   bool          `json:"callback"`
	Poll       time.Duration `json:"poll_seconds"`     // between two questions. Defaults to 10 seconds
	Timeout    time.Duration `json:"timeout_seconds"`  // of one call. Defaults to one minute
	MaxWait    time.Duration `json:"max_wait_seconds"` // of the asynchronous work. Defaults to one hour
	Params     []spec.Field  `json:"params"`
	OpenParams bool          `json:"open_params"` // parameters beyond Params are allowed
	Outputs    []spec.Field
}

// Options locate services and add calls to the built-in table.
type Options struct {
	// Endpoints are added to the table; one with the name of a built-in action replaces it.
	Endpoints []Endpoint
	// Apps are base URLs by service: "http://10.0.0.5:8080". Defaults to none.
	Apps map[string]string `json:"apps"`
	// AppIDs are the app ids that the sidecar knows services by, where these are not the names in the table. Default
	// to none.
	AppIDs map[string]string `json:"app_ids"`
	// DaprPort is the HTTP port of the Dapr sidecar on this machine, through which apps without a base
	// URL are called. Defaults to 0: no sidecar.
	DaprPort int `json:"dapr_http_port"`
	// DaprToken is sent to the sidecar as dapr-api-token. Defaults to none.
	DaprToken string
	// Limits are those of the calls; addresses need no permission, because only the configured ones are
	// called.
	Limits outbound.Options
	// Now is the time. Defaults to time.Now.
	Now func() time.Time
}

// Register adds the actions. The table is checked: every problem with it is CodeInvalid.
func Register(r *action.Registry, o Options) error {
	c, err := newCaller(o)
	if err != nil {
		return err
	}
	for _, e := range table(o.Endpoints) {
		if err := e.complete(); err != nil {
			return err
		}
		if err := r.Add(action.Action{Spec: e.spec(), Handler: &handler{caller: c, endpoint: e}}); err != nil {
			return err
		}
	}
	return nil
}

// table is the built-in one with the given rows in place of, or after, its own.
func table(given []Endpoint) []Endpoint {
	rows := builtin()
	for _, e := range given {
		at := slices.IndexFunc(rows, func(r Endpoint) bool { return r.Action == e.Action || slices.Contains(r.Aliases, e.Action) })
		switch {
		case at < 0:
			rows = append(rows, e)
		case rows[at].Action == e.Action:
			e.inherit(&rows[at])
			rows[at] = e
		default: // an alias gets a row of its own
			rows[at].Aliases = slices.DeleteFunc(slices.Clone(rows[at].Aliases), func(a string) bool { return a == e.Action })
			e.inherit(&rows[at])
			e.Aliases = nil
			rows = append(rows, e)
		}
	}
	return rows
}

// inherit fills in empty fields from the built-in row.
func (e *Endpoint) inherit(from *Endpoint) {
	if e.Summary == "" {
		e.Summary = from.Summary
	}
	if e.Params == nil {
		e.Params, e.OpenParams = from.Params, e.OpenParams || from.OpenParams
	}
	if e.Outputs == nil {
		e.Outputs = from.Outputs
	}
	if e.Aliases == nil {
		e.Aliases = from.Aliases
	}
}

var (
	placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	appID       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	methods     = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
)

// complete checks a row and fills in its defaults.
func (e *Endpoint) complete() error {
	bad := func(format string, args ...any) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "service action " + e.Action + ": " + fmt.Sprintf(format, args...)}
	}
	if e.Method == "" {
		e.Method = http.MethodPost
	}
	if e.StatusPath == "" {
		e.StatusPath = "/api/v1/workflows/{workflow_id}/status"
	}
	if e.CancelMethod == "" {
		e.CancelMethod = http.MethodDelete
	}
	e.Poll, e.Timeout, e.MaxWait = orElse(e.Poll, 10*time.Second), orElse(e.Timeout, time.Minute), orElse(e.MaxWait, time.Hour)
	if e.Summary == "" {
		e.Summary = "Calls " + e.App + "."
	}
	switch {
	case e.Action == "":
		return bad("it has no name")
	case !appID.MatchString(e.App):
		return bad("app %q is not an app id", e.App)
	case !strings.HasPrefix(e.Path, "/") || !strings.HasPrefix(e.StatusPath, "/"):
		return bad("the path %q does not begin with /", e.Path)
	case !slices.Contains(methods, e.Method):
		return bad("the method %q is none of %s", e.Method, strings.Join(methods, ", "))
	case e.Async && !strings.Contains(e.StatusPath, "{workflow_id}"):
		return bad("the status path %q has no {workflow_id}", e.StatusPath)
	case !e.Async && (e.CancelPath != "" || e.Callback):
		return bad("cancel_path and callback are for asynchronous actions")
	case e.CancelPath != "" && (!strings.HasPrefix(e.CancelPath, "/") || !strings.Contains(e.CancelPath, "{workflow_id}")):
		return bad("the cancel path %q does not begin with / or has no {workflow_id}", e.CancelPath)
	case !slices.Contains(methods, e.CancelMethod):
		return bad("the cancel method %q is none of %s", e.CancelMethod, strings.Join(methods, ", "))
	}
	for _, m := range placeholder.FindAllStringSubmatch(e.Path, -1) {
		f, ok := spec.FieldNamed(e.Params, m[1])
		if !ok && e.OpenParams {
			e.Params = append(slices.Clone(e.Params), spec.Field{Name: m[1], Type: spec.Ref, Required: true, Doc: "Part of the path."})
		} else if !ok || !f.Required {
			return bad("{%s} of the path is not a required parameter", m[1])
		}
	}
	return nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

func (e *Endpoint) spec() spec.Spec {
	doc := fmt.Sprintf("`%s %s` of the service `%s`.", e.Method, e.Path, e.App)
	if e.Async {
		doc += fmt.Sprintf(" The service answers with a `workflow_id`; the step waits without a worker and asks `%s` every %s, for at most %s.", e.StatusPath, e.Poll, e.MaxWait)
		if e.CancelPath != "" {
			doc += fmt.Sprintf(" A cancelled step cancels it there: `%s %s`.", e.CancelMethod, e.CancelPath)
		}
	}
	return spec.Spec{Name: e.Action, Aliases: e.Aliases, Summary: e.Summary, Doc: doc, Params: e.Params, OpenParams: e.OpenParams, Outputs: e.Outputs, OpenOutputs: true,
		Timeout: e.Timeout + 30*time.Second}
}

// caller knows how to reach services.
type caller struct {
	o      Options
	client *outbound.Client
	bases  map[string]*url.URL
}

func newCaller(o Options) (*caller, error) {
	c := &caller{o: o, bases: map[string]*url.URL{}}
	if c.o.Now == nil {
		c.o.Now = time.Now
	}
	limits := o.Limits
	for _, app := range slices.Sorted(maps.Keys(o.Apps)) {
		base, err := url.Parse(o.Apps[app])
		if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the base URL of the app %s is not valid", app), Hint: "write it like http://host:port"}
		}
		c.bases[app] = base
		limits.AllowHosts = append(slices.Clone(limits.AllowHosts), base.Host)
	}
	for _, app := range slices.Sorted(maps.Keys(o.AppIDs)) {
		if !appID.MatchString(o.AppIDs[app]) {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the app id %q of %s is none", o.AppIDs[app], app), Hint: "letters, digits, - _ and ."}
		}
	}
	if o.DaprPort < 0 || o.DaprPort > 65535 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the Dapr port %d is out of range", o.DaprPort)}
	}
	if o.DaprPort > 0 {
		limits.AllowHosts = append(slices.Clone(limits.AllowHosts), c.sidecar().Host)
	}
	var err error
	c.client, err = outbound.New(limits)
	return c, err
}

func (c *caller) sidecar() *url.URL {
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(c.o.DaprPort)}
}

// place is where an app is reached.
type place struct {
	base *url.URL
	gate string // of the app behind a sidecar; empty: the address itself
}

// locate finds an app: at its base URL, else behind the sidecar.
func (c *caller) locate(app string) (place, error) {
	if base := c.bases[app]; base != nil {
		return place{base: base}, nil
	}
	if c.o.DaprPort > 0 {
		id := app
		if other := c.o.AppIDs[app]; other != "" {
			id = other
		}
		return place{base: c.sidecar().JoinPath("v1.0", "invoke", id, "method"), gate: "dapr:" + id}, nil
	}
	return place{}, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("nothing says where the service %s is", app),
		Hint: "give its base URL under services.apps, or services.dapr_http_port, in stepwell.yaml"})
}

// sidecar reports whether calls go through Dapr's sidecar.
func (p place) sidecar() bool { return p.gate != "" }

// at is the URL of a path, which is already escaped.
func (p place) at(path string) (*url.URL, error) {
	return url.Parse(strings.TrimSuffix(p.base.String(), "/") + path)
}
