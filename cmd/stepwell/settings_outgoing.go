package main

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream/files"
)

// outgoing are the settings about what steps may reach. They are in the settings file only.
type outgoing struct {
	HTTP     httpSettings    `json:"http"`
	Services serviceSettings `json:"services"`
	S3       s3Settings      `json:"s3"`
	Schemas  schemaSettings  `json:"schemas"`
	Streams  streamSettings  `json:"streams"`
}

// s3Settings say how s3:// paths are reached; credentials come from the environment (AWS_*) alone.
type s3Settings struct {
	Endpoint  string `json:"endpoint"`
	Region    string `json:"region"`
	Anonymous bool   `json:"anonymous"`
}

// schemaSettings say where STAC schemas are.
type schemaSettings struct {
	Dir   string            `json:"dir"`
	Cache string            `json:"cache"`
	Mode  string            `json:"mode" enum:"offline,cache,refresh"`
	Map   map[string]string `json:"map"`
}

// streamSettings are about item streams.
type streamSettings struct {
	Checkpoints string `json:"checkpoints"`
}

type httpSettings struct {
	AllowPrivate  bool                     `json:"allow_private"`
	AllowHosts    []string                 `json:"allow_hosts"`
	AllowCIDRs    []string                 `json:"allow_cidrs"`
	PerHost       limitSettings            `json:"per_host"`
	PerCredential limitSettings            `json:"per_credential"`
	Hosts         map[string]limitSettings `json:"hosts"`
	Record        string                   `json:"record"`
	Replay        string                   `json:"replay"`
}

type limitSettings struct {
	Concurrent      int     `json:"concurrent"`
	PerSecond       float64 `json:"per_second"`
	Burst           int     `json:"burst"`
	TokensPerMinute int     `json:"tokens_per_minute"`
}

type serviceSettings struct {
	DaprHTTPPort int               `json:"dapr_http_port"`
	AppIDs       map[string]string `json:"app_ids"`
	Apps         map[string]string `json:"apps"`
	Actions      map[string]row    `json:"actions"`
}

// row is an endpoint of the table of services.
type row struct {
	Summary        string        `json:"summary"`
	App            string        `json:"app"`
	Path           string        `json:"path"`
	Method         string        `json:"method"`
	Async          bool          `json:"async"`
	StatusPath     string        `json:"status_path"`
	CancelPath     string        `json:"cancel_path"`
	CancelMethod   string        `json:"cancel_method"`
	Callback       bool          `json:"callback"`
	PollSeconds    float64       `json:"poll_seconds"`
	TimeoutSeconds float64       `json:"timeout_seconds"`
	MaxWaitSeconds float64       `json:"max_wait_seconds"`
	Params         []fieldOfYAML `json:"params"`
	OpenParams     bool          `json:"open_params"`
}

type fieldOfYAML struct {
	Name     string    `json:"name"`
	Type     spec.Type `json:"type"`
	Doc      string    `json:"description"`
	Required bool      `json:"required"`
	Default  any       `json:"default"`
	Enum     []string  `json:"enum"`
	Secret   bool      `json:"secret"`
}

// options are those of an App that go with the settings.
func (p *program) options() (app.Options, error) {
	o := app.Options{Data: p.settings.data, Synchronous: p.settings.sync.value, Workers: p.settings.workers}
	if o.Data == "" {
		o.DB = p.settings.db
	}
	var err error
	if o.HTTP, err = p.settings.outgoing.HTTP.options(); err != nil {
		return o, err
	}
	if o.Services, err = p.serviceOptions(); err != nil {
		return o, err
	}
	o.Services.Limits = o.HTTP
	s := &p.settings.outgoing
	o.S3 = files.S3Options{Endpoint: s.S3.Endpoint, Region: s.S3.Region, Anonymous: s.S3.Anonymous}
	o.Schemas = schema.Options{Dir: s.Schemas.Dir, Cache: s.Schemas.Cache, Mode: schema.Mode(s.Schemas.Mode), Map: s.Schemas.Map}
	switch o.Schemas.Mode {
	case "", schema.Offline, schema.Cached, schema.Refresh:
	default:
		return o, stepwell.Invalid("offline, cache or refresh", "%s: schemas.mode: %q", settingsFile, s.Schemas.Mode)
	}
	o.Checkpoints = s.Streams.Checkpoints
	p.engineOptions(&o)
	return o, nil
}

// engineOptions are what a server and a single run have in common: queues, prices and the key of secrets.
func (p *program) engineOptions(o *app.Options) {
	s := p.settings.serving
	for name, q := range s.Queues {
		if o.Queues == nil {
			o.Queues = map[string]queue.Limits{}
		}
		o.Queues[name] = queue.Limits{Concurrency: q.Concurrency, Rate: q.Rate, Burst: q.Burst}
	}
	for name, c := range s.Prices {
		if o.Prices == nil {
			o.Prices = map[string]app.Price{}
		}
		o.Prices[name] = app.Price{PerCall: int64(c.PerCall), PerSecond: int64(c.PerSecond), PerInputToken: int64(c.PerInputToken), PerOutputToken: int64(c.PerOutputToken)}
	}
	o.MasterKey.File = s.Secrets.KeyFile
	if file, _ := p.env("STEPWELL_SECRETS_KEY_FILE"); file != "" {
		o.MasterKey.File = file
	}
	o.MasterKey.Text, _ = p.env("STEPWELL_SECRETS_KEY")
}

func (h *httpSettings) options() (outbound.Options, error) {
	o := outbound.Options{AllowPrivate: h.AllowPrivate, AllowHosts: h.AllowHosts, PerHost: h.PerHost.limit(), PerCredential: h.PerCredential.limit(),
		Record: h.Record, Replay: h.Replay}
	for _, text := range h.AllowCIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return o, stepwell.Invalid("write it like 10.1.0.0/16", "%s: http.allow_cidrs: %q is no network", settingsFile, text)
		}
		o.AllowCIDRs = append(o.AllowCIDRs, prefix)
	}
	for host, l := range h.Hosts {
		if o.Hosts == nil {
			o.Hosts = map[string]outbound.Limit{}
		}
		o.Hosts[host] = l.limit()
	}
	return o, nil
}

func (l limitSettings) limit() outbound.Limit {
	return outbound.Limit{Concurrent: l.Concurrent, PerSecond: l.PerSecond, Burst: l.Burst, TokensPerMinute: l.TokensPerMinute}
}

// platformApps are the services whose app ids the platform says in variables such as BUDCLUSTER_APP_ID (budpipeline §11).
var platformApps = []string{"budapp", "budcluster", "budmodel", "budsim", "budnotify", "budmetrics"}

// serviceOptions say where services are. A process beside a Dapr sidecar is told its port by the
// environment.
func (p *program) serviceOptions() (service.Options, error) {
	s := &p.settings.outgoing.Services
	o := service.Options{Apps: s.Apps, AppIDs: map[string]string{}, DaprPort: s.DaprHTTPPort}
	maps.Copy(o.AppIDs, s.AppIDs)
	if text, ok := p.env("DAPR_HTTP_PORT"); ok && text != "" && o.DaprPort == 0 {
		port, err := strconv.Atoi(text)
		if err != nil {
			return o, stepwell.Invalid("", "DAPR_HTTP_PORT: %q is no port", text)
		}
		o.DaprPort = port
	}
	o.DaprToken, _ = p.env("DAPR_API_TOKEN")
	for _, name := range platformApps {
		if id, _ := p.env(strings.ToUpper(name) + "_APP_ID"); id != "" && o.AppIDs[name] == "" {
			o.AppIDs[name] = id
		}
	}
	names := make([]string, 0, len(s.Actions))
	for name := range s.Actions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r := s.Actions[name]
		o.Endpoints = append(o.Endpoints, r.endpoint(name))
	}
	return o, nil
}

func (r *row) endpoint(name string) service.Endpoint {
	e := service.Endpoint{Action: name, Summary: r.Summary, App: r.App, Path: r.Path, Method: strings.ToUpper(r.Method), Async: r.Async, StatusPath: r.StatusPath,
		CancelPath: r.CancelPath, CancelMethod: strings.ToUpper(r.CancelMethod), Callback: r.Callback,
		Poll: inSeconds(r.PollSeconds), Timeout: inSeconds(r.TimeoutSeconds), MaxWait: inSeconds(r.MaxWaitSeconds), OpenParams: r.OpenParams}
	for _, f := range r.Params {
		if f.Type == "" {
			f.Type = spec.Any
		}
		e.Params = append(e.Params, spec.Field{Name: f.Name, Type: f.Type, Doc: f.Doc, Required: f.Required, Default: f.Default, Enum: f.Enum, Secret: f.Secret})
	}
	return e
}

func inSeconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// registry has the actions that go with the settings.
func (p *program) registry() (*action.Registry, error) {
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	return app.Actions(o)
}
