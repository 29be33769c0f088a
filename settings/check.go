package settings

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/app"
)

// basePath is what a path in front of all others may be: it needs no escaping anywhere.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// logLevels are the levels by their names here and in budpipeline.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "critical": slog.LevelError}

// Validate checks what the decoder cannot know. Its errors are CodeInvalid and name the key.
func (s *Serving) Validate() error {
	for _, check := range []func() error{s.Server.Validate, s.Server.Auth.validate, s.Log.validate, s.Telemetry.validate, s.State.Validate, s.Policy.Validate} {
		if err := check(); err != nil {
			return err
		}
	}
	for name, p := range s.Programs() {
		if err := p.Validate(name); err != nil {
			return err
		}
	}
	return nil
}

// Validate is CodeInvalid with the key.
func (s *Server) Validate() error {
	_, port, err := net.SplitHostPort(s.Listen)
	if err == nil && port != "" {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // a number that fits, or a name
	}
	if err != nil || port == "" {
		return stepwell.Invalid("write it like 127.0.0.1:8010, or :8010 for all addresses", "server.listen: %q is not an address", s.Listen)
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		return stepwell.Invalid("give both, or none", "server.tls needs a cert and a key")
	}
	if s.TLS.ClientCA != "" && s.TLS.Cert == "" {
		return stepwell.Invalid("give a cert and a key too", "server.tls.client_ca without TLS has no effect")
	}
	for name, base := range map[string]string{"base_url": s.BaseURL, "advertise": s.Advertise} {
		if u, err := url.Parse(base); base != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "") {
			return stepwell.Invalid("write it like https://stepwell.example.org", "server.%s: %q is not a base URL", name, base)
		}
	}
	if p := s.BasePath; p != "" && (!basePath.MatchString(p) || path.Clean(p) != p) {
		return stepwell.Invalid("write it like /stepwell", "server.base_path: %q is no path", p)
	}
	for _, o := range s.CORS.Origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" {
			return stepwell.Invalid("write it like https://app.example.org", "server.cors.origins: %q is not an origin", o)
		}
	}
	return nil
}

func (a *Auth) validate() error {
	for _, text := range a.TrustedProxies {
		if _, err := netip.ParsePrefix(text); err != nil {
			if _, err := netip.ParseAddr(text); err != nil {
				return stepwell.Invalid("write it like 10.1.0.0/16 or 10.1.2.3", "server.auth.trusted_proxies: %q is not a network", text)
			}
		}
	}
	for key, roles := range map[string]map[string]string{"jwt": a.JWT.Roles, "oidc": a.OIDC.Roles} {
		for value, role := range roles {
			var r access.Role
			if err := r.UnmarshalText([]byte(role)); err != nil {
				return stepwell.Invalid(stepwell.HintOf(err), "server.auth.%s.roles.%s: unknown role %q", key, value, role)
			}
		}
	}
	if j := &a.JWT; j.JWKS == "" && (j.Issuer != "" || j.Audience != "" || j.RoleClaim != "" || len(j.Roles) > 0) {
		return stepwell.Invalid("name the file or the URL with the issuer's keys", "server.auth.jwt without jwks has no effect")
	}
	return a.OIDC.validate()
}

func (o *OIDC) validate() error {
	switch {
	case (o.Issuer == "") != (o.ClientID == ""):
		return stepwell.Invalid("give both, or none", "server.auth.oidc needs an issuer and a client_id")
	case o.Issuer == "" && (o.ClientSecret != "" || o.ClientSecretRef != "" || len(o.Scopes) > 0 || o.RoleClaim != "" || o.NameClaim != "" || len(o.Roles) > 0):
		return stepwell.Invalid("name the issuer and the client_id", "server.auth.oidc without issuer has no effect")
	case o.ClientSecret != "" && o.ClientSecretRef != "":
		return stepwell.Invalid("give one of them", "server.auth.oidc has a client_secret and a client_secret_ref")
	}
	return nil
}

// MinLevel is the lowest level that is logged.
func (l *Log) MinLevel() slog.Level { return logLevels[strings.ToLower(l.Level)] }

func (l *Log) validate() error {
	if _, ok := logLevels[strings.ToLower(l.Level)]; !ok {
		return stepwell.Invalid("debug, info, warn or error", "log.level: %q is not a level", l.Level)
	}
	switch l.Format {
	case "", "json", "text":
		return nil
	}
	return stepwell.Invalid("json or text", "log.format: %q is not a format", l.Format)
}

// Validate is CodeInvalid with the key.
func (s *State) Validate() error {
	switch u, err := url.Parse(s.URL); {
	case s.URL == "" && s.Publish != "":
		return stepwell.Invalid("name the Redis server with state.url", "state.publish without a server has no effect")
	case s.Publish != "" && s.Publish != app.PublishChannel && s.Publish != app.PublishStream:
		return stepwell.Invalid("channel or stream", "state.publish: %q is unknown", s.Publish)
	case s.URL != "" && (err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix"): // it may have a password
		return stepwell.Invalid("write it like redis://127.0.0.1:6379", "state.url is not the URL of a Redis server")
	}
	return nil
}

// Options are those of the server.
func (s *State) Options() app.State {
	o := app.State{URL: s.URL, DB: s.DB, TTL: time.Duration(s.TTLSeconds) * time.Second, Publish: s.Publish}
	if s.DB == 0 {
		o.DB = -1 // 0 stands for the usual one there
	}
	return o
}

func (t *Telemetry) validate() error {
	if t.OTLPEndpoint == "" {
		return nil
	}
	if u, err := url.Parse(t.OTLPEndpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return stepwell.Invalid("write it like http://localhost:4318", "telemetry.otlp_endpoint: %q is not a URL", t.OTLPEndpoint)
	}
	return nil
}
