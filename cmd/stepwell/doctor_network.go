package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
)

func (d *doctor) listener(ctx context.Context) []finding {
	s := &d.serving.Server
	var all []finding
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
	switch {
	case err == nil:
		_ = l.Close() // it was only tried
		all = append(all, fine("port", "%s is free", s.Listen))
	case d.holder != "":
		all = append(all, fine("port", "%s is in use; the database is too, by process %s", s.Listen, d.holder))
	default:
		all = append(all, fail("port", "stop the other program, or use another --listen", "%v", err))
	}
	if !loopbackOnly(s.Listen) && s.TLS.Cert == "" {
		all = append(all, warn("encryption", "set server.tls, or have a proxy in front that does TLS", "%s is reachable from other machines without TLS", s.Listen))
	}
	return all
}

// loopbackOnly says whether only this machine reaches an address.
func loopbackOnly(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// soon is when a certificate ought to be replaced.
const soon = 14 * 24 * time.Hour

func (d *doctor) certificate(context.Context) []finding {
	t := &d.serving.Server.TLS
	if t.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return []finding{fail("certificate", "server.tls.cert and key are PEM files that belong together", "%v", err)}
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return []finding{fail("certificate", "", "%v", err)}
	}
	now := d.now()
	switch until := leaf.NotAfter.Format(time.DateOnly); {
	case now.After(leaf.NotAfter):
		return []finding{fail("certificate", "renew it", "%s has expired on %s", t.Cert, until)}
	case now.Before(leaf.NotBefore):
		return []finding{fail("certificate", "look at the clock", "%s is not valid before %s", t.Cert, leaf.NotBefore.Format(time.DateOnly))}
	case leaf.NotAfter.Sub(now) < soon:
		return []finding{warn("certificate", "renew it", "%s expires on %s", t.Cert, until)}
	default:
		return []finding{fine("certificate", "%s is valid until %s", t.Cert, until)}
	}
}

func (d *doctor) tokens(ctx context.Context) []finding {
	jwks := d.serving.Server.Auth.JWT.JWKS
	switch {
	case jwks == "":
		return nil
	case strings.Contains(jwks, "://"):
		return []finding{d.reach(ctx, "token keys", jwks, http.StatusOK, "nobody can sign in with a token until it answers")}
	}
	if _, err := os.Stat(jwks); err != nil {
		return []finding{fail("token keys", "server.auth.jwt.jwks is a file or a URL", "%v", err)}
	}
	return []finding{fine("token keys", "%s", jwks)}
}

// reach asks for a URL and wants the status.
func (d *doctor) reach(ctx context.Context, check, address string, want int, advice string) finding {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fail(check, advice, "%v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fail(check, advice, "%v", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return fail(check, advice, "%v", err)
	}
	if resp.StatusCode != want {
		return fail(check, advice, "%s answers %s", address, resp.Status)
	}
	return fine(check, "%s answers", address)
}

func (d *doctor) dapr(ctx context.Context) []finding {
	o, err := d.program.serviceOptions()
	if err != nil {
		return []finding{fail("dapr", stepwell.HintOf(err), "%v", err)}
	}
	if o.DaprPort == 0 {
		return nil
	}
	address := "http://127.0.0.1:" + strconv.Itoa(o.DaprPort) + "/v1.0/healthz"
	return []finding{d.reach(ctx, "dapr", address, http.StatusNoContent, "start the sidecar, or unset DAPR_HTTP_PORT; steps that call services fail until then")}
}

// kubernetes looks whether the cluster of the current context can be reached, if a kubeconfig is named.
func (d *doctor) kubernetes(ctx context.Context) []finding {
	path, _ := d.program.env("KUBECONFIG")
	if path == "" {
		return nil
	}
	address, err := clusterAddress(path)
	if err != nil {
		return []finding{fail("kubernetes", "KUBECONFIG names a file that kubectl can use", "%v", err)}
	}
	return []finding{d.dial(ctx, "kubernetes", address, "look at the network, or at the server in "+path)}
}

// clusterAddress is host and port of the API server of a kubeconfig's current context.
func clusterAddress(path string) (string, error) {
	raw, err := readFile(path, maxDotenv)
	if err != nil {
		return "", err
	}
	var c struct {
		Current  string `yaml:"current-context"`
		Contexts []struct {
			Name    string
			Context struct{ Cluster string }
		}
		Clusters []struct {
			Name    string
			Cluster struct{ Server string }
		}
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	for _, x := range c.Contexts {
		for _, k := range c.Clusters {
			if x.Name == c.Current && k.Name == x.Context.Cluster {
				return hostPort(k.Cluster.Server)
			}
		}
	}
	return "", fmt.Errorf("%s: the current context %q leads to no cluster", path, c.Current)
}

// hostPort is where a URL leads.
func hostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if u.Hostname() == "" {
		return "", errors.New(address + " is no URL")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[u.Scheme]
		if port == "" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

func (d *doctor) dial(ctx context.Context, check, address, advice string) finding {
	conn, err := (&net.Dialer{Timeout: checkPatience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fail(check, advice, "%v", err)
	}
	_ = conn.Close() // it was only tried
	return fine(check, "%s can be reached", address)
}

func (d *doctor) telemetry(ctx context.Context) []finding {
	endpoint := d.serving.Telemetry.OTLPEndpoint
	if endpoint == "" {
		return nil
	}
	address, err := hostPort(endpoint)
	if err != nil {
		return []finding{fail("telemetry", "telemetry.otlp_endpoint is a URL such as http://localhost:4318", "%v", err)}
	}
	f := d.dial(ctx, "telemetry", address, "traces are lost until it answers; nothing else is")
	if f.Status == findingFail {
		f.Status = findingWarn
	}
	return []finding{f}
}
