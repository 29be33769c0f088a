package main

import (
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/trigger/event/redisource"
)

// serving are the settings that `stepwell serve` reads beside those of all commands. Every one of them but the policy
// is also a variable: STEPWELL_ and its keys joined by underscores.
type serving struct {
	Server    serverSettings               `json:"server"`
	Defaults  defaultSettings              `json:"defaults"`
	Retention retentionSettings            `json:"retention"`
	Queues    map[string]queueSettings     `json:"queues"`
	Sources   map[string]redisource.Source `json:"event_sources"`
	Prices    map[string]priceSettings     `json:"prices"`
	Telemetry telemetrySettings            `json:"telemetry"`
	State     stateSettings                `json:"state"`
	Secrets   secretSettings               `json:"secrets"`
	Exec      execSettings                 `json:"exec"`
	Policy    access.Policy                `json:"policy"`
	Files     fileSettings                 `json:"files"`
	Log       logSettings                  `json:"log"`
}

// queueSettings are the limits of a queue, and where its steps are offered.
type queueSettings struct {
	queue.Limits
	Via   string `json:"via" enum:"nodes,redis"` // "": as the default queue's, which is redis where there is a server
	Lists int    `json:"lists" minimum:"0" maximum:"3"`
}

type serverSettings struct {
	Listen      string        `json:"listen"`
	BaseURL     string        `json:"base_url"`
	Advertise   string        `json:"advertise"` // where other nodes reach this one
	StopSeconds int           `json:"stop_seconds" minimum:"0" maximum:"86400"`
	WorkerLease float64       `json:"worker_lease_seconds" minimum:"0.1" maximum:"3600"`
	TLS         tlsSettings   `json:"tls"`
	Auth        authSettings  `json:"auth"`
	Limits      limitsOfServe `json:"limits"`
	CORS        corsSettings  `json:"cors"`
}

// tlsSettings name PEM files.
type tlsSettings struct {
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	ClientCA string `json:"client_ca"`
}

type authSettings struct {
	JWT            jwtSettings `json:"jwt"`
	TrustedProxies []string    `json:"trusted_proxies"`
}

type jwtSettings struct {
	JWKS      string            `json:"jwks"` // file or URL
	Issuer    string            `json:"issuer"`
	Audience  string            `json:"audience"`
	RoleClaim string            `json:"role_claim"`
	Roles     map[string]string `json:"roles"` // value of the claim → role
}

type limitsOfServe struct {
	Body        byteSize `json:"body" minimum:"1024" maximum:"1073741824"`
	Connections int      `json:"connections" minimum:"1" maximum:"1000000"`
	Rate        float64  `json:"rate" minimum:"1" maximum:"1000000"` // requests per second of one caller
	Burst       int      `json:"burst" minimum:"1" maximum:"1000000"`
	WSClients   int      `json:"ws_clients" minimum:"1" maximum:"1000000"`
	Executions  int      `json:"executions" minimum:"0" maximum:"1000000"`
	Pending     int      `json:"pending" minimum:"1" maximum:"10000000"`
}

type corsSettings struct {
	Origins []string `json:"origins"`
}

// defaultSettings are for pipelines that do not say otherwise; 0 leaves Stepwell's own.
type defaultSettings struct {
	TimeoutSeconds   float64      `json:"timeout_seconds" minimum:"0" maximum:"31622400"`
	MaxParallelSteps int          `json:"max_parallel_steps" minimum:"0" maximum:"100000"`
	Retry            retryDefault `json:"retry"`
}

type retryDefault struct {
	MaxAttempts    int     `json:"max_attempts" minimum:"0" maximum:"100"`
	BackoffSeconds float64 `json:"backoff_seconds" minimum:"0" maximum:"86400"`
}

// retentionSettings say after how many days things go; 0 keeps them for good.
type retentionSettings struct {
	Executions int `json:"executions_days" minimum:"0" maximum:"36500"`
	Logs       int `json:"logs_days" minimum:"0" maximum:"36500"`
	Audit      int `json:"audit_days" minimum:"0" maximum:"36500"`
	Firings    int `json:"firings_days" minimum:"0" maximum:"36500"`
	Keys       int `json:"keys_days" minimum:"0" maximum:"36500"`
}

// priceSettings are what an action costs, in the currency that people have in mind.
type priceSettings struct {
	PerCall        decimal `json:"per_call"`
	PerSecond      decimal `json:"per_second"`
	PerInputToken  decimal `json:"per_input_token"`
	PerOutputToken decimal `json:"per_output_token"`
}

type telemetrySettings struct {
	OTLPEndpoint string `json:"otlp_endpoint"`
	ServiceName  string `json:"service_name"`
}

// stateSettings name the Redis server that has the progress of projects beside the database.
type stateSettings struct {
	URL        string `json:"url"`
	DB         int    `json:"db" minimum:"0" maximum:"1000000"`
	TTLSeconds int    `json:"ttl_seconds" minimum:"60" maximum:"315360000"`
	Publish    string `json:"publish" enum:"channel,stream"` // where job.completed goes
}

type secretSettings struct {
	KeyFile string `json:"key_file"`
}

// execSettings say what commands of steps may touch on a server with keys.
type execSettings struct {
	User    string   `json:"user"`
	Folders []string `json:"folders"`
	Read    []string `json:"read"`
	PassEnv []string `json:"pass_env"`
}

// fileSettings say which files steps may touch on a server with keys.
type fileSettings struct {
	Allow []string `json:"allow"`
}

type logSettings struct {
	Level  string `json:"level"`
	Format string `json:"format" enum:"json,text"`
}

// defaultListen is loopback: without any configuration nobody else reaches the server.
const defaultListen = "127.0.0.1:8010"

// defaultServing is what holds without a word in the settings.
func defaultServing() serving {
	return serving{
		Server: serverSettings{Listen: defaultListen, StopSeconds: 30, WorkerLease: 15,
			Limits: limitsOfServe{Body: 4 << 20, Connections: 4096, Rate: 100, Burst: 200, WSClients: 2000, Executions: 10_000, Pending: 100_000}},
		Retention: retentionSettings{Executions: 30, Logs: 30, Audit: 365, Firings: 30, Keys: 30},
		State:     stateSettings{DB: 1, TTLSeconds: 604_800},
		Telemetry: telemetrySettings{ServiceName: "stepwell"},
		Log:       logSettings{Level: "info"},
	}
}
