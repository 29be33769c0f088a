package settings

import (
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/mcpapi"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/trigger/event/redisource"
)

// Serving are the settings that `stepwell serve` reads beside those of all commands. Every one of them but the policy
// is also a variable: STEPWELL_ and its keys joined by underscores.
type Serving struct {
	Server    Server                       `json:"server"`
	Defaults  Defaults                     `json:"defaults"`
	Retention Retention                    `json:"retention"`
	Queues    map[string]Queue             `json:"queues"`
	Sources   map[string]redisource.Source `json:"event_sources"`
	Prices    map[string]Price             `json:"prices"`
	Telemetry Telemetry                    `json:"telemetry"`
	Uploads   Uploads                      `json:"uploads"`
	State     State                        `json:"state"`
	Secrets   Secrets                      `json:"secrets"`
	Exec      Exec                         `json:"exec"`
	Plugins   map[string]Plugin            `json:"plugins"`
	Dapr      Dapr                         `json:"dapr"`
	Reports   app.Reports                  `json:"reports"`
	Policy    access.Policy                `json:"policy"`
	Files     Files                        `json:"files"`
	Templates Templates                    `json:"templates"`
	MCP       MCP                          `json:"mcp"`
	Log       Log                          `json:"log"`
}

// Queue are the limits of a queue, and where its steps are offered.
type Queue struct {
	queue.Limits
	Via   string `json:"via" enum:"nodes,redis"` // "": as the default queue's, which is redis where there is a server
	Lists int    `json:"lists" minimum:"0" maximum:"3"`
}

// Server are how a server is reached, by whom, and its limits.
type Server struct {
	Listen      string  `json:"listen"`
	BaseURL     string  `json:"base_url"`
	BasePath    string  `json:"base_path"` // below which a proxy has the server
	Advertise   string  `json:"advertise"` // where other nodes reach this one
	StopSeconds int     `json:"stop_seconds" minimum:"0" maximum:"86400"`
	WorkerLease float64 `json:"worker_lease_seconds" minimum:"0.1" maximum:"3600"`
	TLS         TLS     `json:"tls"`
	Auth        Auth    `json:"auth"`
	Limits      Limits  `json:"limits"`
	CORS        CORS    `json:"cors"`
}

// TLS name PEM files.
type TLS struct {
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	ClientCA string `json:"client_ca"`
}

// Auth are the ways callers prove who they are.
type Auth struct {
	JWT            JWT      `json:"jwt"`
	OIDC           OIDC     `json:"oidc"`
	TrustedProxies []string `json:"trusted_proxies"`
}

// JWT say which JSON Web Tokens are accepted.
type JWT struct {
	JWKS      string            `json:"jwks"` // file or URL
	Issuer    string            `json:"issuer"`
	Audience  string            `json:"audience"`
	RoleClaim string            `json:"role_claim"`
	Roles     map[string]string `json:"roles"` // value of the claim → role
}

// OIDC say at which OpenID Connect issuer people sign in with a browser.
type OIDC struct {
	Issuer          string            `json:"issuer"`
	ClientID        string            `json:"client_id"`
	ClientSecret    string            `json:"client_secret"`
	ClientSecretRef string            `json:"client_secret_ref"` // a secret of the vault
	Scopes          []string          `json:"scopes"`
	NameClaim       string            `json:"name_claim"`
	RoleClaim       string            `json:"role_claim"`
	Roles           map[string]string `json:"roles"` // value of the claim → role
}

// Limits bound what callers may ask for.
type Limits struct {
	Body        ByteSize `json:"body" minimum:"1024" maximum:"1073741824"`
	Connections int      `json:"connections" minimum:"1" maximum:"1000000"`
	Rate        float64  `json:"rate" minimum:"1" maximum:"1000000"` // requests per second of one caller
	Burst       int      `json:"burst" minimum:"1" maximum:"1000000"`
	WSClients   int      `json:"ws_clients" minimum:"1" maximum:"1000000"`
	Executions  int      `json:"executions" minimum:"0" maximum:"1000000"`
	Pending     int      `json:"pending" minimum:"1" maximum:"10000000"`
}

// CORS are the web pages that may call the API.
type CORS struct {
	Origins []string `json:"origins"`
}

// Defaults are for pipelines that do not say otherwise; 0 leaves Stepwell's own.
type Defaults struct {
	TimeoutSeconds   float64 `json:"timeout_seconds" minimum:"0" maximum:"31622400"`
	MaxParallelSteps int     `json:"max_parallel_steps" minimum:"0" maximum:"100000"`
	Retry            Retry   `json:"retry"`
}

// Retry is the retry policy of steps without one.
type Retry struct {
	MaxAttempts    int     `json:"max_attempts" minimum:"0" maximum:"100"`
	BackoffSeconds float64 `json:"backoff_seconds" minimum:"0" maximum:"86400"`
}

// Retention say after how many days things go; 0 keeps them for good.
type Retention struct {
	Executions int `json:"executions_days" minimum:"0" maximum:"36500"`
	Logs       int `json:"logs_days" minimum:"0" maximum:"36500"`
	Audit      int `json:"audit_days" minimum:"0" maximum:"36500"`
	Firings    int `json:"firings_days" minimum:"0" maximum:"36500"`
	Keys       int `json:"keys_days" minimum:"0" maximum:"36500"`
}

// Uploads bound the media of lessons.
type Uploads struct {
	MaxBytes    ByteSize `json:"max_bytes" minimum:"1024" maximum:"68719476736"`
	ExpireHours int      `json:"expire_hours" minimum:"1" maximum:"8760"`
	CacheBytes  ByteSize `json:"cache_bytes" minimum:"1024" maximum:"1099511627776"`
}

// Price are what an action costs, in the currency that people have in mind.
type Price struct {
	PerCall        Decimal `json:"per_call"`
	PerSecond      Decimal `json:"per_second"`
	PerInputToken  Decimal `json:"per_input_token"`
	PerOutputToken Decimal `json:"per_output_token"`
}

// Telemetry are where traces go.
type Telemetry struct {
	OTLPEndpoint string `json:"otlp_endpoint"`
	ServiceName  string `json:"service_name"`
}

// State name the Redis server that has the progress of projects beside the database.
type State struct {
	URL        string `json:"url"`
	DB         int    `json:"db" minimum:"0" maximum:"1000000"`
	TTLSeconds int    `json:"ttl_seconds" minimum:"60" maximum:"315360000"`
	Publish    string `json:"publish" enum:"channel,stream"` // where job.completed goes
}

// Secrets name the file with the master key, and where secrets are that the vault does not have.
type Secrets struct {
	KeyFile string                 `json:"key_file"`
	Sources []service.SecretSource `json:"sources"`
}

// Exec say what commands of steps may touch on a server with keys.
type Exec struct {
	User    string   `json:"user"`
	Folders []string `json:"folders"`
	Read    []string `json:"read"`
	PassEnv []string `json:"pass_env"`
}

// Plugin is a program beside the server that brings actions.
type Plugin struct {
	Command     []string          `json:"command"`
	Dir         string            `json:"dir"`
	Env         map[string]string `json:"env"`
	PassEnv     []string          `json:"pass_env"`
	Concurrency int               `json:"concurrency" minimum:"0" maximum:"10000"` // 0: what the program asks for
	MemoryBytes ByteSize          `json:"memory_bytes"`
}

// Files say which files steps may touch on a server with keys.
type Files struct {
	Allow []string `json:"allow"`
}

// Templates are where pipelines to begin with come from, besides the built-in ones.
type Templates struct {
	Folders []string           `json:"folders"`
	Git     []app.TemplateRepo `json:"git"`
}

// MCP are what agents may do over the Model Context Protocol: at /mcp of a server, and with `stepwell mcp`.
type MCP struct {
	Enabled bool     `json:"enabled"` // at /mcp of a server
	Confirm string   `json:"confirm" enum:"agent,person"`
	Actions []string `json:"actions"`
}

// Options are those of the service; rehearse are the arguments with which this program serves a rehearsal, tell shows a text to a
// person.
func (m *MCP) Options(rehearse []string, tell func(string)) mcpapi.Options {
	return mcpapi.Options{Rehearse: rehearse, Actions: m.Actions, Person: m.Confirm == "person", Tell: tell}
}

// Log are the level and the form of the log.
type Log struct {
	Level  string `json:"level"`
	Format string `json:"format" enum:"json,text"`
}

// DefaultListen is loopback: without any configuration nobody else reaches the server.
const DefaultListen = "127.0.0.1:8010"

// Default is what holds without any settings.
func Default() Serving {
	return Serving{
		Server: Server{Listen: DefaultListen, StopSeconds: 30, WorkerLease: 15,
			Limits: Limits{Body: 4 << 20, Connections: 4096, Rate: 100, Burst: 200, WSClients: 2000, Executions: 10_000, Pending: 100_000}},
		Retention: Retention{Executions: 30, Logs: 30, Audit: 365, Firings: 30, Keys: 30},
		Uploads:   Uploads{MaxBytes: 10 << 30, ExpireHours: 24, CacheBytes: 20 << 30},
		State:     State{DB: 1, TTLSeconds: 604_800},
		Telemetry: Telemetry{ServiceName: "stepwell"},
		Log:       Log{Level: "info"},
		MCP:       MCP{Confirm: "agent"},
	}
}
