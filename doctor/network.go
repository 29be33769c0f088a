package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/app"
)

func (e *examination) listener(ctx context.Context) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", e.Listen)
	switch {
	case err == nil:
		_ = l.Close() // it was only tried
		e.fine("port", "%s is free", e.Listen)
	case e.holder != "":
		e.fine("port", "%s is in use: by process %s, which has the database, if that is a server; else by another program", e.Listen, e.holder)
	default:
		e.fail("port", "stop the other program, or use another --listen", "%v", err)
	}
	if e.Exposed {
		e.warn("encryption", "set server.tls, or have a proxy in front that does TLS", "%s is reachable from other machines without TLS", e.Listen)
	}
}

// soon is when a certificate ought to be replaced.
const soon = 14 * 24 * time.Hour

func (e *examination) certificate(context.Context) {
	if e.Cert == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	if err != nil {
		e.fail("certificate", "server.tls.cert and key are PEM files that belong together", "%v", err)
		return
	}
	leaf, now := pair.Leaf, time.Now()
	switch until := leaf.NotAfter.Format(time.DateOnly); {
	case now.After(leaf.NotAfter):
		e.fail("certificate", "renew it", "%s expired on %s", e.Cert, until)
	case now.Before(leaf.NotBefore):
		e.fail("certificate", "check the clock", "%s is not valid before %s", e.Cert, leaf.NotBefore.Format(time.DateOnly))
	case leaf.NotAfter.Sub(now) < soon:
		e.warn("certificate", "renew it", "%s expires on %s", e.Cert, until)
	default:
		e.fine("certificate", "%s is valid until %s", e.Cert, until)
	}
}

func (e *examination) tokens(ctx context.Context) {
	switch {
	case e.JWKS == "":
	case strings.Contains(e.JWKS, "://"):
		e.result(request(ctx, e.JWKS, http.StatusOK), "token keys", "tokens are rejected until it answers", "%s answers", e.JWKS)
	default:
		_, err := os.Stat(e.JWKS)
		e.result(err, "token keys", "server.auth.jwt.jwks is a file or a URL", "%s", e.JWKS)
	}
}

func (e *examination) streams(ctx context.Context) {
	if e.App.SharedStreams == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	e.result(e.App.ProbeStreams(ctx), "streams", "streams.shared is a folder or a bucket of all servers and workers that run streams", "%s can be shared", e.App.SharedStreams)
}

// request expects a status from a URL.
func request(ctx context.Context, address string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s answers %s", address, resp.Status)
	}
	return err
}

// state asks the Redis server with the progress of projects, which must not evict.
func (e *examination) state(ctx context.Context) {
	if e.State.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	policy, err := app.EvictionPolicy(ctx, e.State)
	switch {
	case err != nil:
		e.warn("state", "start the Redis server of state.url; the database answers for it until then", "%v", err)
	case policy != "noeviction" && policy != "":
		e.warn("state", "set maxmemory-policy noeviction, or name a server of its own with state.url", "the Redis server evicts (%s): by server, not by database", policy)
	default:
		e.fine("state", "the Redis server answers, and evicts nothing")
	}
}

// shownJobs is how many names of jobs a finding has.
const shownJobs = 10

// clusters asks each Kubernetes cluster of the settings what its user may not do, and for jobs that the database does not know.
func (e *examination) clusters(ctx context.Context) {
	if len(e.App.Kubernetes.Clusters) == 0 {
		return
	}
	o := e.App.Kubernetes
	db, err := app.OpenReader(ctx, e.db, e.App.Log)
	if err == nil {
		defer db.Close()
		if named, ok := db.(interface{ ID() string }); ok {
			o.Instance = named.ID
		}
	} else {
		db = nil // reported by database
	}
	all, err := kube.NewClusters(o)
	if err != nil {
		e.fail("clusters", stepwell.HintOf(err), "%v", err)
		return
	}
	for _, id := range all.IDs() {
		if c, err := all.Find(id); err == nil {
			e.cluster(ctx, c, "cluster "+id, db)
		}
	}
}

func (e *examination) cluster(ctx context.Context, c *kube.Cluster, check string, db app.Store) {
	if name := e.App.Kubernetes.Clusters[c.ID()].Service; name != "" {
		client, err := service.NewClient(e.App.Services)
		if err == nil {
			err = client.Located(name)
			client.Close()
		}
		e.result(err, check, stepwell.HintOf(err), "its jobs are run by the service %s", name)
		return
	}
	if secret := e.App.Kubernetes.Clusters[c.ID()].Secret; secret != "" {
		e.fine(check, "its kubeconfig is the secret %s; `stepwell clusters list` says how it is", secret)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 4*checkPatience)
	defer cancel()
	namespace, missing, err := c.Missing(ctx)
	switch {
	case err != nil:
		e.fail(check, cmp.Or(stepwell.HintOf(err), "check its kubeconfig in kubernetes.clusters"), "%v", err)
	case len(missing) > 0:
		e.warn(check, "docs/kubernetes.md has the Role; some rights are for parts of the actions only", "in the namespace %s its user may not: %s", namespace, strings.Join(missing, ", "))
	default:
		e.fine(check, "its user may do in the namespace %s what jobs need", namespace)
	}
	if err == nil && db != nil && !slices.Contains(missing, "list jobs") {
		e.unknownJobs(ctx, c, check, namespace, db)
	}
}

// unknownJobs reports jobs of this installation that the database does not know, as after restoring an older backup.
func (e *examination) unknownJobs(ctx context.Context, c *kube.Cluster, check, namespace string, db app.Store) {
	names, err := c.Unknown(ctx, namespace, func(ctx context.Context, id string) (bool, error) {
		_, err := db.Execution(ctx, id)
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return false, nil
		}
		return err == nil, err
	})
	switch {
	case err != nil:
		e.warn(check, stepwell.HintOf(err), "its jobs cannot be listed: %v", err)
	case len(names) > 0:
		more := ""
		if n := len(names) - shownJobs; n > 0 {
			names, more = names[:shownJobs], fmt.Sprintf(" and %d more", n)
		}
		e.warn(check, "delete them with kubectl if no other copy of the database needs them", "the namespace %s has jobs of executions that the database does not know: %s%s", namespace, strings.Join(names, ", "), more)
	}
}

// kubernetes dials the cluster of the current context, if a kubeconfig is named.
func (e *examination) kubernetes(ctx context.Context) {
	if e.Kubeconfig == "" {
		return
	}
	address, err := e.clusterAddress()
	if err != nil {
		e.fail("kubernetes", "KUBECONFIG names a file that kubectl can use", "%v", err)
		return
	}
	e.result(dial(ctx, address), "kubernetes", "look at the network, or at the server in "+e.Kubeconfig, "%s can be reached", address)
}

// maxKubeconfig bounds a kubeconfig.
const maxKubeconfig = 1 << 20

// clusterAddress returns host and port of the API server of the kubeconfig's current context.
func (e *examination) clusterAddress() (string, error) {
	raw, err := e.ReadFile(e.Kubeconfig, maxKubeconfig)
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
		return "", fmt.Errorf("%s: %w", e.Kubeconfig, err)
	}
	for _, x := range c.Contexts {
		for _, k := range c.Clusters {
			if x.Name == c.Current && k.Name == x.Context.Cluster {
				return hostPort(k.Cluster.Server)
			}
		}
	}
	return "", fmt.Errorf("%s: the current context %q leads to no cluster", e.Kubeconfig, c.Current)
}

// hostPort returns host and port of a URL.
func hostPort(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if u.Hostname() == "" {
		return "", errors.New(address + " is not a URL")
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443")), nil
}

func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: checkPatience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	_ = conn.Close() // it was only tried
	return nil
}

func (e *examination) telemetry(ctx context.Context) {
	if e.OTLP == "" {
		return
	}
	address, err := hostPort(e.OTLP)
	if err != nil {
		e.fail("telemetry", "telemetry.otlp_endpoint is a URL such as http://localhost:4318", "%v", err)
		return
	}
	if err := dial(ctx, address); err != nil {
		e.warn("telemetry", "traces are lost until it answers; nothing else is", "%v", err)
		return
	}
	e.fine("telemetry", "%s can be reached", address)
}
