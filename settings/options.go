package settings

import (
	"context"
	"strings"
	"time"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plugin"
	"github.com/stepwell/stepwell/queue"
)

// AddToServer adds what a server alone has; queue is the address of the Redis server with the lists of steps. The options of all
// processes are in o already.
func (s *Serving) AddToServer(o *app.ServerOptions, queue string, lookup func(string) (string, bool)) (err error) {
	if o.Lists, err = s.lists(queue); err != nil {
		return err
	}
	if o.Dapr, err = s.Dapr.Options(o.Services.DaprPort, o.Services.DaprToken, lookup); err != nil {
		return err
	}
	o.Reports, o.Templates, o.TemplateRepos = s.Reports, s.Templates.Folders, s.Templates.Git
	o.Sources, o.Plugins = s.Sources, s.Programs()
	o.WorkerLease = inSeconds(s.Server.WorkerLease)
	o.Listen, o.BaseURL = s.Server.Listen, strings.TrimSuffix(s.Server.BaseURL, "/")
	o.BasePath = s.Server.BasePath
	o.Advertise = strings.TrimSuffix(s.Server.Advertise, "/")
	o.MaxConnections = s.Server.Limits.Connections
	o.StopAfter = max(time.Millisecond, time.Duration(s.Server.StopSeconds)*time.Second)
	o.Uploads = app.Uploads{MaxBytes: int64(s.Uploads.MaxBytes), Expire: time.Duration(s.Uploads.ExpireHours) * time.Hour, CacheBytes: int64(s.Uploads.CacheBytes)}
	o.Retention, o.State = s.Retention.options(), s.State.Options()
	o.MaxBody, o.MaxFollowers = int64(s.Server.Limits.Body), s.Server.Limits.WSClients
	o.Access = s.Server.access(s.Policy)
	o.Telemetry = app.Telemetry{Endpoint: s.Telemetry.OTLPEndpoint, Service: s.Telemetry.ServiceName}
	o.MaxExecutions, o.MaxPending = s.Server.Limits.Executions, s.Server.Limits.Pending
	d := &s.Defaults
	o.Defaults = pipeline.Defaults{Timeout: inSeconds(d.TimeoutSeconds), MaxParallelSteps: d.MaxParallelSteps, RetryAttempts: d.Retry.MaxAttempts, RetryBackoff: inSeconds(d.Retry.BackoffSeconds)}
	o.TLS, err = s.Server.TLS.config()
	return err
}

// Programs are the plugins as they are started.
func (s *Serving) Programs() map[string]plugin.Program {
	all := map[string]plugin.Program{}
	for name, p := range s.Plugins {
		all[name] = plugin.Program{Command: p.Command, Dir: p.Dir, Env: p.Env, PassEnv: p.PassEnv, Concurrency: p.Concurrency, Memory: int64(p.MemoryBytes)}
	}
	return all
}

// AddTo adds what a server and a single run have in common: queues, prices and the key of secrets, which the environment
// may have.
func (s *Serving) AddTo(o *app.Options, lookup func(string) (string, bool)) {
	for name, q := range s.Queues {
		if o.Queues == nil {
			o.Queues = map[string]queue.Limits{}
		}
		o.Queues[name] = q.Limits
	}
	for name, c := range s.Prices {
		if o.Prices == nil {
			o.Prices = map[string]app.Price{}
		}
		o.Prices[name] = app.Price{PerCall: int64(c.PerCall), PerSecond: int64(c.PerSecond), PerInputToken: int64(c.PerInputToken), PerOutputToken: int64(c.PerOutputToken)}
	}
	o.SecretSources = s.Secrets.Sources
	o.MasterKey.File = s.Secrets.KeyFile
	if file, _ := lookup("STEPWELL_SECRETS_KEY_FILE"); file != "" {
		o.MasterKey.File = file
	}
	o.MasterKey.Text, _ = lookup("STEPWELL_SECRETS_KEY")
}

// access is who may come in; validate has checked it.
func (s *Server) access(policy access.Policy) app.Access {
	a := app.Access{Policy: policy, Proxies: s.Auth.TrustedProxies, Origins: s.CORS.Origins, Limit: access.LimitOptions{Rate: s.Limits.Rate, Burst: s.Limits.Burst}}
	if o := &s.Auth.OIDC; o.Issuer != "" {
		a.OIDC = &access.OIDCOptions{Issuer: o.Issuer, ClientID: o.ClientID, Scopes: o.Scopes, NameClaim: o.NameClaim, RoleClaim: o.RoleClaim, Roles: rolesOf(o.Roles)}
		a.ClientSecretRef = o.ClientSecretRef
		if text := o.ClientSecret; text != "" {
			a.OIDC.ClientSecret = func(context.Context) (string, error) { return text, nil }
		}
	}
	j := &s.Auth.JWT
	if j.JWKS == "" {
		return a
	}
	a.JWT = &access.JWTOptions{Issuer: j.Issuer, Audience: j.Audience, RoleClaim: j.RoleClaim, Roles: rolesOf(j.Roles)}
	if strings.Contains(j.JWKS, "://") {
		a.JWT.URL = j.JWKS
	} else {
		a.JWT.File = j.JWKS
	}
	return a
}

// rolesOf are roles by the values of a claim; nil without any.
func rolesOf(names map[string]string) map[string]access.Role {
	var roles map[string]access.Role
	for value, name := range names {
		var role access.Role
		if role.UnmarshalText([]byte(name)) == nil { // checked before
			if roles == nil {
				roles = map[string]access.Role{}
			}
			roles[value] = role
		}
	}
	return roles
}

func (r *Retention) options() app.Retention {
	const day = 24 * time.Hour
	return app.Retention{Executions: time.Duration(r.Executions) * day, Logs: time.Duration(r.Logs) * day, Audit: time.Duration(r.Audit) * day, Firings: time.Duration(r.Firings) * day,
		Keys: time.Duration(r.Keys) * day}
}

// Exposed reports that other machines reach the server, and without TLS.
func (s *Server) Exposed() bool { return !access.LoopbackHost(s.Listen) && s.TLS.Cert == "" }

func inSeconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
