package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// Limits of requests.
const (
	connectTimeout = 5 * time.Second
	requestTimeout = 30 * time.Second
	maxRequests    = 32 // at once, besides watches and logs
	maxBody        = 64 << 20
	maxErrorBody   = 64 << 10
	// politeTries is how often a request is sent that the server puts off by Retry-After, of at most politePause each.
	politeTries = 3
	politePause = 5 * time.Second
)

// client speaks to the API server of one cluster. It is safe for concurrent use.
type client struct {
	http  *http.Client
	base  string
	login *login
	slots chan struct{}
	seen  func(error) // is told how each request has ended
}

// client is the client for the cluster's kubeconfig as it is now.
func (c *Cluster) connect(ctx context.Context) (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg, err := c.loadLocked(ctx)
	if err != nil {
		c.health.failed(c.clusters.o.Now(), err)
		return nil, err
	}
	if c.client == nil {
		if c.client, err = newClient(cfg, c.clusters.o.Now, c.clusters.o.Outbound); err != nil {
			return nil, atCluster(c.id, err)
		}
		c.client.seen = func(err error) { c.health.seen(c.clusters.o.Now(), err) }
		c.client.login.hide = c.clusters.o.Hide
	}
	return c.client, nil
}

// newClient makes a client. guard connects to clusters that are guarded; nil: without limits.
func newClient(cfg *config, now func() time.Time, guard *outbound.Client) (*client, error) {
	auth, err := newLogin(cfg, now)
	if err != nil {
		return nil, err
	}
	t := &tls.Config{ServerName: cfg.ServerName, InsecureSkipVerify: cfg.Insecure, MinVersion: tls.VersionTLS12, GetClientCertificate: auth.certificate} // #nosec G402 -- the kubeconfig says so
	if cfg.CA != nil {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(cfg.CA) {
			return nil, stepwell.Invalid("", "the kubeconfig's certificate authority is not a PEM certificate")
		}
	}
	proxy := http.ProxyFromEnvironment
	if cfg.Proxy != nil {
		proxy = http.ProxyURL(cfg.Proxy)
	}
	dial := (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	if cfg.guarded { // a proxy would connect to any address
		proxy = nil
		if guard != nil {
			dial = func(ctx context.Context, _, address string) (net.Conn, error) { return guard.Dial(ctx, address) }
		}
	}
	transport := &http.Transport{Proxy: proxy, TLSClientConfig: t, ForceAttemptHTTP2: true, DialContext: dial,
		TLSHandshakeTimeout: connectTimeout, MaxIdleConnsPerHost: maxRequests, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 1 << 20,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}}
	return &client{http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		base: strings.TrimSuffix(cfg.Server.String(), "/"), login: auth, slots: make(chan struct{}, maxRequests), seen: func(error) {}}, nil
}

// request is one request to the API server.
type request struct {
	method, path string
	query        url.Values
	kind         string // content type of body. Defaults to JSON
	body         any
}

// Content types of patches.
const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// StatusError is the API server's refusal.
type StatusError struct {
	Status  int // of HTTP
	Reason  string
	Message string
	After   time.Duration // Retry-After
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s (HTTP %d)", e.Message, e.Status) }

// statusOf is the HTTP status of an error, 0 for none.
func statusOf(err error) int {
	if s, ok := errors.AsType[*StatusError](err); ok {
		return s.Status
	}
	return 0
}

// do sends a request and decodes the answer. A refusal is *StatusError.
func (c *client) do(ctx context.Context, r request, into any) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, end := context.WithTimeout(ctx, requestTimeout)
	defer end()
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return err
	case len(raw) > maxBody:
		return stepwell.Errorf(stepwell.CodeLimit, "", "the answer to %s %s is larger than %d MiB", r.method, r.path, maxBody>>20)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the API server did not answer with JSON", Err: err}
	}
	return nil
}

// open sends a request whose answer is read as it comes: a watch, a log. It ends with ctx.
func (c *client) open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// send sends a request until the server takes it: again with new credentials after 401, and later where it says when.
func (c *client) send(ctx context.Context, r request) (*http.Response, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, err
		}
	}
	for try := 1; ; try++ {
		resp, err := c.once(ctx, &r, body)
		c.seen(err)
		refused, _ := errors.AsType[*StatusError](err)
		switch {
		case refused == nil:
			return resp, err
		case refused.Status == http.StatusUnauthorized && try == 1 && c.login.renew():
		case (refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable) && refused.After > 0 && refused.After <= politePause && try < politeTries:
			if action.Pause(ctx, refused.After) != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func (c *client) once(ctx context.Context, r *request, body []byte) (*http.Response, error) {
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "stepwell")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		if r.kind != "" {
			req.Header.Set("Content-Type", r.kind)
		}
	}
	token, err := c.login.token(ctx)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the API server cannot be reached", Err: err}
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// refusal reads what a Status object, or any other answer, says.
func refusal(resp *http.Response) *StatusError {
	e := &StatusError{Status: resp.StatusCode, Message: http.StatusText(resp.StatusCode)}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		e.After = time.Duration(min(seconds, 3600)) * time.Second
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return e
	}
	var status struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	if json.Unmarshal(raw, &status) == nil && status.Kind == "Status" {
		e.Reason = status.Reason
		if status.Message != "" {
			e.Message = stepwell.Clip(status.Message, 4000)
		}
	} else if text := strings.TrimSpace(string(raw)); text != "" {
		e.Message += ": " + stepwell.Clip(text, 500)
	}
	return e
}
