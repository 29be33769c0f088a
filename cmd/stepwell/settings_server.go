package main

import "github.com/stepwell/stepwell/access"

// serving are the settings that `stepwell serve` reads beside those of all commands. Every one of them is
// also a variable: STEPWELL_ and its env names joined by underscores.
type serving struct {
	Server    serverSettings           `yaml:"server" envPrefix:"SERVER_"`
	Defaults  defaultSettings          `yaml:"defaults" envPrefix:"DEFAULTS_"`
	Retention retentionSettings        `yaml:"retention" envPrefix:"RETENTION_"`
	Queues    map[string]queueSettings `yaml:"queues"`
	Prices    map[string]priceSettings `yaml:"prices"`
	Telemetry telemetrySettings        `yaml:"telemetry" envPrefix:"TELEMETRY_"`
	Secrets   secretSettings           `yaml:"secrets" envPrefix:"SECRETS_"`
	Exec      execSettings             `yaml:"exec" envPrefix:"EXEC_"`
	Policy    access.Policy            `yaml:"policy"`
	Files     fileSettings             `yaml:"files" envPrefix:"FILES_"`
	Log       logSettings              `yaml:"log" envPrefix:"LOG_"`
}

type serverSettings struct {
	Listen      string        `yaml:"listen" env:"LISTEN"`
	BaseURL     string        `yaml:"base_url" env:"BASE_URL"`
	StopSeconds int           `yaml:"stop_seconds" env:"STOP_SECONDS"`
	TLS         tlsSettings   `yaml:"tls" envPrefix:"TLS_"`
	Auth        authSettings  `yaml:"auth" envPrefix:"AUTH_"`
	Limits      limitsOfServe `yaml:"limits" envPrefix:"LIMITS_"`
	CORS        corsSettings  `yaml:"cors" envPrefix:"CORS_"`
}

// tlsSettings name PEM files.
type tlsSettings struct {
	Cert     string `yaml:"cert" env:"CERT"`
	Key      string `yaml:"key" env:"KEY"`
	ClientCA string `yaml:"client_ca" env:"CLIENT_CA"`
}

type authSettings struct {
	JWT            jwtSettings `yaml:"jwt" envPrefix:"JWT_"`
	TrustedProxies []string    `yaml:"trusted_proxies" env:"TRUSTED_PROXIES"`
}

type jwtSettings struct {
	JWKS      string            `yaml:"jwks" env:"JWKS"` // file or URL
	Issuer    string            `yaml:"issuer" env:"ISSUER"`
	Audience  string            `yaml:"audience" env:"AUDIENCE"`
	RoleClaim string            `yaml:"role_claim" env:"ROLE_CLAIM"`
	Roles     map[string]string `yaml:"roles"` // value of the claim → role
}

type limitsOfServe struct {
	Body        byteSize `yaml:"body" env:"BODY"`
	Connections int      `yaml:"connections" env:"CONNECTIONS"`
	Rate        float64  `yaml:"rate" env:"RATE"` // requests per second of one caller
	Burst       int      `yaml:"burst" env:"BURST"`
	WSClients   int      `yaml:"ws_clients" env:"WS_CLIENTS"`
	Executions  int      `yaml:"executions" env:"EXECUTIONS"`
	Pending     int      `yaml:"pending" env:"PENDING"`
}

type corsSettings struct {
	Origins []string `yaml:"origins" env:"ORIGINS"`
}

// defaultSettings are for pipelines that do not say otherwise; 0 leaves Stepwell's own.
type defaultSettings struct {
	TimeoutSeconds   float64      `yaml:"timeout_seconds" env:"TIMEOUT_SECONDS"`
	MaxParallelSteps int          `yaml:"max_parallel_steps" env:"MAX_PARALLEL_STEPS"`
	Retry            retryDefault `yaml:"retry" envPrefix:"RETRY_"`
}

type retryDefault struct {
	MaxAttempts    int     `yaml:"max_attempts" env:"MAX_ATTEMPTS"`
	BackoffSeconds float64 `yaml:"backoff_seconds" env:"BACKOFF_SECONDS"`
}

// retentionSettings say after how many days things go; 0 keeps them for good.
type retentionSettings struct {
	Executions int `yaml:"executions_days" env:"EXECUTIONS_DAYS"`
	Logs       int `yaml:"logs_days" env:"LOGS_DAYS"`
	Audit      int `yaml:"audit_days" env:"AUDIT_DAYS"`
	Firings    int `yaml:"firings_days" env:"FIRINGS_DAYS"`
	Keys       int `yaml:"keys_days" env:"KEYS_DAYS"`
}

type queueSettings struct {
	Concurrency int     `yaml:"concurrency"`
	Rate        float64 `yaml:"rate"`
	Burst       int     `yaml:"burst"`
}

// priceSettings are what an action costs, in the currency that people have in mind.
type priceSettings struct {
	PerCall        decimal `yaml:"per_call"`
	PerSecond      decimal `yaml:"per_second"`
	PerInputToken  decimal `yaml:"per_input_token"`
	PerOutputToken decimal `yaml:"per_output_token"`
}

type telemetrySettings struct {
	OTLPEndpoint string `yaml:"otlp_endpoint" env:"OTLP_ENDPOINT"`
	ServiceName  string `yaml:"service_name" env:"SERVICE_NAME"`
}

type secretSettings struct {
	KeyFile string `yaml:"key_file" env:"KEY_FILE"`
}

// execSettings say what commands of steps may touch on a server with keys.
type execSettings struct {
	User    string   `yaml:"user" env:"USER"`
	Folders []string `yaml:"folders" env:"FOLDERS"`
	Read    []string `yaml:"read" env:"READ"`
	PassEnv []string `yaml:"pass_env" env:"PASS_ENV"`
}

// fileSettings say which files steps may touch on a server with keys.
type fileSettings struct {
	Allow []string `yaml:"allow" env:"ALLOW"`
}

type logSettings struct {
	Level  string `yaml:"level" env:"LEVEL"`
	Format string `yaml:"format" env:"FORMAT"`
}

// defaultListen is loopback: without any configuration nobody else reaches the server.
const defaultListen = "127.0.0.1:8010"

// defaultServing is what holds without a word in the settings.
func defaultServing() serving {
	return serving{
		Server: serverSettings{Listen: defaultListen, StopSeconds: 30,
			Limits: limitsOfServe{Body: 4 << 20, Connections: 4096, Rate: 100, Burst: 200, WSClients: 2000, Executions: 10_000, Pending: 100_000}},
		Retention: retentionSettings{Executions: 30, Logs: 30, Audit: 365, Firings: 30, Keys: 30},
		Telemetry: telemetrySettings{ServiceName: "stepwell"},
		Log:       logSettings{Level: "info"},
	}
}
