package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
)

// logLevels are the levels by their names here and in budpipeline.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError}

// validate checks what the decoder cannot know. Its errors are CodeInvalid and name the key.
func (s *serving) validate() error {
	for _, check := range []func() error{s.Server.validate, s.Server.Auth.validate, s.numbers, s.queues, s.Log.validate, s.Telemetry.validate, s.Policy.Validate} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *serverSettings) validate() error {
	_, port, err := net.SplitHostPort(s.Listen)
	if err == nil && port != "" {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // a number that fits, or a name
	}
	if err != nil || port == "" {
		return stepwell.Invalid("write it like 127.0.0.1:8010, or :8010 for all addresses", "server.listen: %q is no address", s.Listen)
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		return stepwell.Invalid("give both, or none", "server.tls needs a cert and a key")
	}
	if s.TLS.ClientCA != "" && s.TLS.Cert == "" {
		return stepwell.Invalid("give a cert and a key too", "server.tls.client_ca without TLS has no effect")
	}
	if s.BaseURL != "" {
		if u, err := url.Parse(s.BaseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
			return stepwell.Invalid("write it like https://stepwell.example.org", "server.base_url: %q is no base URL", s.BaseURL)
		}
	}
	for _, o := range s.CORS.Origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" {
			return stepwell.Invalid("write it like https://app.example.org", "server.cors.origins: %q is no origin", o)
		}
	}
	return nil
}

func (a *authSettings) validate() error {
	for _, text := range a.TrustedProxies {
		if _, err := netip.ParsePrefix(text); err != nil {
			if _, err := netip.ParseAddr(text); err != nil {
				return stepwell.Invalid("write it like 10.1.0.0/16 or 10.1.2.3", "server.auth.trusted_proxies: %q is no network", text)
			}
		}
	}
	for value, role := range a.JWT.Roles {
		var r access.Role
		if err := r.UnmarshalText([]byte(role)); err != nil {
			return stepwell.Invalid(stepwell.HintOf(err), "server.auth.jwt.roles.%s: unknown role %q", value, role)
		}
	}
	if j := &a.JWT; j.JWKS == "" && (j.Issuer != "" || j.Audience != "" || j.RoleClaim != "" || len(j.Roles) > 0) {
		return stepwell.Invalid("name the file or the URL with the issuer's keys", "server.auth.jwt without jwks has no effect")
	}
	return nil
}

// numbers checks ranges: least and most are those that make sense.
func (s *serving) numbers() error {
	l, r, d := &s.Server.Limits, &s.Retention, &s.Defaults
	for _, n := range []struct {
		key         string
		value       float64
		least, most float64
	}{
		{"server.stop_seconds", float64(s.Server.StopSeconds), 0, 86_400},
		{"server.limits.body", float64(l.Body), 1 << 10, 1 << 30},
		{"server.limits.connections", float64(l.Connections), 1, 1_000_000},
		{"server.limits.rate", l.Rate, 1, 1e6},
		{"server.limits.burst", float64(l.Burst), 1, 1e6},
		{"server.limits.ws_clients", float64(l.WSClients), 1, 1_000_000},
		{"server.limits.executions", float64(l.Executions), 0, 1_000_000},
		{"server.limits.pending", float64(l.Pending), 1, 10_000_000},
		{"retention.executions_days", float64(r.Executions), 0, 36_500},
		{"retention.logs_days", float64(r.Logs), 0, 36_500},
		{"retention.audit_days", float64(r.Audit), 0, 36_500},
		{"retention.firings_days", float64(r.Firings), 0, 36_500},
		{"retention.keys_days", float64(r.Keys), 0, 36_500},
		{"defaults.timeout_seconds", d.TimeoutSeconds, 0, 366 * 86_400},
		{"defaults.max_parallel_steps", float64(d.MaxParallelSteps), 0, 100_000},
		{"defaults.retry.max_attempts", float64(d.Retry.MaxAttempts), 0, 100},
		{"defaults.retry.backoff_seconds", d.Retry.BackoffSeconds, 0, 86_400},
	} {
		if !(n.value >= n.least && n.value <= n.most) {
			return stepwell.Invalid(fmt.Sprintf("give a number from %.0f to %.0f", n.least, n.most), "%s: %v is out of range", n.key, n.value)
		}
	}
	return nil
}

func (s *serving) queues() error {
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		if q := s.Queues[name]; q.Concurrency < 0 || !(q.Rate >= 0) || q.Burst < 0 || q.Rate > 1e6 {
			return stepwell.Invalid("0 is no limit", "queues.%s: a limit is out of range", name)
		}
	}
	return nil
}

func (l *logSettings) validate() error {
	if _, ok := logLevels[strings.ToLower(l.Level)]; !ok {
		return stepwell.Invalid("debug, info, warn or error", "log.level: %q is no level", l.Level)
	}
	switch l.Format {
	case "", "json", "text":
		return nil
	}
	return stepwell.Invalid("json or text", "log.format: %q is no format", l.Format)
}

func (t *telemetrySettings) validate() error {
	if t.OTLPEndpoint == "" {
		return nil
	}
	if u, err := url.Parse(t.OTLPEndpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return stepwell.Invalid("write it like http://localhost:4318", "telemetry.otlp_endpoint: %q is no URL", t.OTLPEndpoint)
	}
	return nil
}
