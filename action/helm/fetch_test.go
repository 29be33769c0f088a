package helm_test

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/outbound"
)

// shop is a chart repository and an OCI registry.
type shop struct {
	*httptest.Server
	host string

	mu      sync.Mutex
	pages   map[string]string // by path
	asked   []string          // METHOD PATH AUTHORIZATION
	handler func(w http.ResponseWriter, r *http.Request) bool
}

func newShop(t *testing.T) *shop {
	s := &shop{pages: map[string]string{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		if s.handler != nil && s.handler(w, r) {
			return
		}
		page, ok := s.pages[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(page)) // the client notices
	}))
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "https://")
	return s
}

func (s *shop) set(path, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = page
}

func (s *shop) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, "\n")
}

// trusting lets the rig's steps reach shops, whose certificates it knows.
func (r *rig) trusting(out outbound.Options, shops ...*shop) *rig {
	out.RootCAs = x509.NewCertPool()
	for _, s := range shops {
		out.RootCAs.AddCert(s.Certificate())
	}
	r.actions = register(r.t, kube.Options{Clusters: map[string]kube.Access{"here": {Kubeconfig: r.config}}}, out)
	return r
}

var loopback = outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

func versioned(t *testing.T, version string) string {
	return string(archive(t, chartFiles(files{"Chart.yaml": "apiVersion: v2\nname: greeting\nversion: " + version + "\n"})))
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// TestRepository: the newest version that is no pre-release, or the one that is asked for; all attempts of a step install one archive.
func TestRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := newRig(t).trusting(loopback, s)
	old, current := versioned(t, "1.9.0"), versioned(t, "1.10.0")
	s.set("/charts/a/old.tgz", old)
	s.set("/charts/a/new.tgz", current)
	index := func(newest string) string {
		return "apiVersion: v1\nentries:\n  greeting:\n  - {version: 2.0.0-rc.1, urls: [x.tgz]}\n  - {version: 1.9.0, urls: [a/old.tgz]}\n  - {version: 1.10.0, urls: ['" + s.URL + "/charts/a/new.tgz'], digest: " + newest + "}\n"
	}
	s.set("/charts/index.yaml", index(sumOf(current)))
	p := params{"release": "app", "repo": s.URL + "/charts/", "chart": "greeting", "credential": params{"username": "u", "password": "correct-horse"}}
	newest := r.install("newest", p)
	has(t, succeeds(t, newest.run()), params{"chart": "greeting-1.10.0", "revision": 1})
	if got := s.requests(); strings.Count(got, " Basic ") != 2 {
		t.Errorf("the credential went with\n%s", got)
	}
	exact := params{"release": "app", "repo": s.URL + "/charts", "chart": "greeting", "version": "v1.9.0"}
	has(t, succeeds(t, r.install("exact", exact).run()), params{"chart": "greeting-1.9.0", "revision": 2})

	// The repository moves on; the step's own archive is what a later attempt installs, or none.
	s.set("/charts/index.yaml", index("sha256:"+sumOf("another")))
	has(t, succeeds(t, newest.run()), params{"chart": "greeting-1.10.0", "revision": 3})
	s.set("/charts/a/new.tgz", versioned(t, "6.6.6"))
	succeeds(t, r.install("third", exact).run())
	fails(t, newest.run(), stepwell.CodeConflict, true, "is not the one that was announced")
	fails(t, r.install("lie", p).run(), stepwell.CodeConflict, true, "is not the one that was announced")
	exact["version"] = "3.0.0"
	got := r.install("none", exact).run()
	fails(t, got, stepwell.CodeNotFound, true, "has no chart greeting 3.0.0")
	if hint := stepwell.HintOf(got.Err); !strings.Contains(hint, "1.9.0") {
		t.Errorf("the hint is %q", hint)
	}
	s.set("/charts/index.yaml", "<html>")
	fails(t, r.install("html", exact).run(), stepwell.CodeInvalid, true, "is not YAML with charts")
	exact["repo"] = s.URL + "/missing"
	fails(t, r.install("missing", exact).run(), stepwell.CodeNotFound, true, "404")
	r.wantRevisions("app", "1 superseded", "2 superseded", "3 superseded", "4 deployed")
}

// TestHostileRepository: a repository cannot lead this process to where steps may not go, nor get another's credential.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	s, inner := newShop(t), newShop(t)
	r := nowhere(t).trusting(outbound.Options{AllowHosts: []string{s.host}}, s, inner)
	inner.set("/chart.tgz", versioned(t, "1.0.0"))
	p := params{"release": "app", "repo": s.URL, "chart": "greeting", "credential": params{"username": "u", "password": "correct-horse"}}
	s.set("/index.yaml", "entries: {greeting: [{version: 1.0.0, urls: ['"+inner.URL+"/chart.tgz']}]}")
	fails(t, r.install("elsewhere", p).run(), stepwell.CodeInvalid, true, "loopback")
	s.set("/index.yaml", "entries: {greeting: [{version: 1.0.0, urls: [moved.tgz]}]}")
	s.handler = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path != "/moved.tgz" {
			return false
		}
		http.Redirect(w, q, inner.URL+"/chart.tgz", http.StatusFound)
		return true
	}
	fails(t, r.install("redirect", p).run(), stepwell.CodeInvalid, true, "loopback")
	for _, address := range []string{"file:///etc/passwd", "https://u:p@" + s.host + "/x.tgz"} {
		s.set("/index.yaml", "entries: {greeting: [{version: 1.0.0, urls: ['"+address+"']}]}")
		fails(t, r.install("scheme", p).run(), stepwell.CodeInvalid, true, "cannot be fetched")
	}
	if got := inner.requests(); got != "" {
		t.Errorf("the inner server was asked for\n%s", got)
	}

	// Allowed, it gets the request, but not the credential.
	r.trusting(outbound.Options{AllowHosts: []string{s.host, inner.host}}, s, inner)
	s.set("/index.yaml", "entries: {greeting: [{version: 1.0.0, urls: ['"+inner.URL+"/chart.tgz']}]}")
	fails(t, r.install("allowed", p).run(), stepwell.CodeUnavailable, false, "connection refused") // by the cluster
	fails(t, r.install("followed", params{"release": "app", "chart": s.URL + "/moved.tgz", "credential": p["credential"]}).run(), stepwell.CodeUnavailable, false, "connection refused")
	if got := inner.requests(); strings.Contains(got, "Basic") || strings.Count(got, "/chart.tgz") != 2 {
		t.Errorf("the other host got\n%s", got)
	}
	s.set("/huge.tgz", strings.Repeat("x", 33<<20))
	fails(t, r.install("huge", params{"release": "app", "chart": s.URL + "/huge.tgz"}).run(), stepwell.CodeLimit, true, "")
}

// TestRegistry: a chart of an OCI registry, with a token service and blobs on another host.
func TestRegistry(t *testing.T) {
	t.Parallel()
	s, blobs := newShop(t), newShop(t)
	r := newRig(t).trusting(loopback, s, blobs)
	text := versioned(t, "1.2.3+build.5")
	blobs.set("/stored", text)
	const name = "/v2/team/greeting"
	s.set(name+"/tags/list", `{"tags": ["1.0.0", "1.2.3_build.5", "latest", "2.0.0-rc1"]}`)
	s.set(name+"/manifests/1.2.3_build.5", `{"layers": [{"mediaType": "application/vnd.cncf.helm.chart.provenance.v1.prov", "digest": "sha256:`+sumOf("x")+`"}, {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": "sha256:`+sumOf(text)+`"}]}`)
	s.set("/v2/image/manifests/1.0.0", `{"layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:`+sumOf(text)+`"}]}`)
	s.handler = func(w http.ResponseWriter, q *http.Request) bool {
		switch {
		case q.URL.Path == "/token":
			if _, password, _ := q.BasicAuth(); password != "correct-horse" || q.URL.Query().Get("scope") != "repository:team/greeting:pull" || q.URL.Query().Get("service") != "shop" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			_, _ = w.Write([]byte(`{"token": "pull-token"}`)) // the client notices
		case q.Header.Get("Authorization") != "Bearer pull-token":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="shop",scope="repository:team/greeting:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(q.URL.Path, name+"/blobs/"):
			http.Redirect(w, q, blobs.URL+"/stored", http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}
	p := params{"release": "app", "chart": "oci://" + s.host + "/team/greeting", "credential": params{"username": "u", "password": "correct-horse"}}
	x := r.install("x", p)
	has(t, succeeds(t, x.run()), params{"chart": "greeting-1.2.3+build.5", "revision": 1})
	p["version"] = "1.2.3+build.5"
	has(t, succeeds(t, r.install("y", p).run()), params{"revision": 2})
	if got := blobs.requests(); strings.Contains(got, "Bearer") {
		t.Errorf("the host of the blobs got the token\n%s", got)
	}
	blobs.set("/stored", versioned(t, "6.6.6"))
	fails(t, r.install("z", p).run(), stepwell.CodeConflict, true, "is not the one that was announced")
	p["version"] = "9.9.9"
	fails(t, r.install("none", p).run(), stepwell.CodeNotFound, true, "404")
	p["credential"] = params{"username": "u", "password": "wrong-password"}
	got := r.install("wrong", p).run()
	fails(t, got, stepwell.CodeFailed, true, "401")
	if strings.Contains(got.Err.Error(), "wrong-password") {
		t.Errorf("the error shows the password: %v", got.Err)
	}
	p["chart"], p["version"], p["credential"] = "oci://"+s.host+"/image", "1.0.0", params{"username": "u", "password": "correct-horse"}
	fails(t, r.install("image", p).run(), stepwell.CodeInvalid, true, "is not a Helm chart")
}
