package doctor

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/secret"
)

// examine runs one check.
func examine(t *testing.T, o Options, check func(*examination)) *Finding {
	t.Helper()
	if o.App.Data == "" && o.App.DB == "" {
		o.App.DB = filepath.Join(t.TempDir(), "x.db")
	}
	o.App.Log = slog.New(slog.DiscardHandler)
	e := newExamination(o)
	check(e)
	if len(e.found) == 0 {
		t.Fatal("nothing was found")
	}
	return &e.found[0]
}

func (f *Finding) is(t *testing.T, status, detail string) {
	t.Helper()
	if f.Status != status || !strings.Contains(f.Detail, detail) || status == Fail && f.Advice == "" {
		t.Errorf("%s %s %q (%q), want %s with %q", f.Check, f.Status, f.Detail, f.Advice, status, detail)
	}
}

// TestDataDirectory: a directory that others can look into is a warning.
func TestDataDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	check := func(e *examination) { e.dataDirectory(t.Context()) }
	o := Options{App: app.Options{Data: data}}
	examine(t, o, check).is(t, OK, "will be created")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	examine(t, o, check).is(t, OK, data)
	if err := os.Chmod(data, 0o755); err != nil { //nolint:gosec // that is what is found
		t.Fatal(err)
	}
	examine(t, o, check).is(t, Warn, "mode 0755")
}

// TestDatabase: a file that is no database fails.
func TestDatabase(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(db, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	examine(t, Options{App: app.Options{DB: db}}, func(e *examination) { e.database(t.Context()) }).is(t, Fail, "not a database")
}

// TestSharedDatabase: of a database that is no file, the place of what belongs to this machine is examined, its master key has to be
// named, and nothing shows the password of its URL.
func TestSharedDatabase(t *testing.T) {
	o := Options{App: app.Options{DB: "postgres://me:secretword@127.0.0.1:1/x"}}
	for _, check := range []struct {
		run            func(*examination)
		status, detail string
	}{
		{func(e *examination) { e.dataDirectory(t.Context()) }, OK, "beside postgres://me:xxxxx@127.0.0.1:1/x"},
		{func(e *examination) { e.database(t.Context()) }, Warn, "is not a file"},
		{func(e *examination) { e.disk(t.Context()) }, "", " free in ."},
		{func(e *examination) { e.masterKey(t.Context()) }, Fail, "no master key is named"},
	} {
		f := examine(t, o, check.run)
		f.is(t, cmp.Or(check.status, f.Status), check.detail)
		if strings.Contains(f.Detail+f.Advice, "secretword") {
			t.Errorf("%s shows the password: %q", f.Check, f.Detail)
		}
	}
}

// TestMasterKey: a key that others can read, or that a setting names and is not there, fails.
func TestMasterKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	o := Options{App: app.Options{DB: filepath.Join(t.TempDir(), "x.db"), MasterKey: secret.KeyOptions{File: file}}}
	if f := MasterKey(t.Context(), o); f.Status != Fail || !strings.Contains(f.Detail, "does not exist") {
		t.Errorf("%+v", f)
	}
	if err := os.WriteFile(file, []byte("AAAA\n"), 0o644); err != nil { //nolint:gosec // that is what is found
		t.Fatal(err)
	}
	if f := MasterKey(t.Context(), o); f.Status != Fail || !strings.Contains(f.Detail, file) {
		t.Errorf("%+v", f)
	}
}

// TestListener: a port that another program has fails; an address that others reach without TLS is a warning of its own.
func TestListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := func(e *examination) { e.listener(t.Context()) }
	examine(t, Options{Listen: l.Addr().String()}, check).is(t, Fail, "in use")
	examine(t, Options{Listen: "127.0.0.1:0"}, check).is(t, OK, "is free")
	examine(t, Options{Listen: l.Addr().String()}, func(e *examination) {
		e.holder = "7"
		check(e)
	}).is(t, OK, "by process 7")
	examine(t, Options{Listen: "127.0.0.1:0", Exposed: true}, func(e *examination) {
		check(e)
		e.found = e.found[1:]
	}).is(t, Warn, "without TLS")
}

// TestCertificate: one that expired, is not valid yet, or belongs to another key fails; one that expires soon is a warning.
func TestCertificate(t *testing.T) {
	now := time.Now()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		from, to       time.Time
		status, detail string
	}{
		"good":    {now.Add(-day), now.Add(90 * day), OK, "is valid until"},
		"soon":    {now.Add(-day), now.Add(3 * day), Warn, "expires on"},
		"expired": {now.Add(-9 * day), now.Add(-day), Fail, "expired on"},
		"future":  {now.Add(day), now.Add(90 * day), Fail, "is not valid before"},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := certificate(t, c.from, c.to)
			examine(t, Options{Cert: cert, Key: key}, func(e *examination) { e.certificate(t.Context()) }).is(t, c.status, c.detail)
			_, other := certificate(t, c.from, c.to)
			examine(t, Options{Cert: cert, Key: other}, func(e *examination) { e.certificate(t.Context()) }).is(t, Fail, "private key")
		})
	}
}

// certificate writes a certificate and its key.
func certificate(t *testing.T, from, to time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestNeighbours: what does not answer fails, except a collector of traces, without which only traces are lost.
func TestNeighbours(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer answers.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tokens := func(e *examination) { e.tokens(t.Context()) }
	examine(t, Options{JWKS: answers.URL}, tokens).is(t, OK, "answers")
	examine(t, Options{JWKS: answers.URL + "/broken"}, tokens).is(t, Fail, "500")
	examine(t, Options{JWKS: filepath.Join(t.TempDir(), "nowhere")}, tokens).is(t, Fail, "nowhere")
	telemetry := func(e *examination) { e.telemetry(t.Context()) }
	examine(t, Options{OTLP: answers.URL}, telemetry).is(t, OK, "can be reached")
	examine(t, Options{OTLP: gone.URL}, telemetry).is(t, Warn, "refused")
	examine(t, Options{OTLP: "nowhere"}, telemetry).is(t, Fail, "not a URL")
	kube := func(text string, err error) Options {
		return Options{Kubeconfig: "kube", ReadFile: func(string, int64) ([]byte, error) { return []byte(text), err }}
	}
	kubernetes := func(e *examination) { e.kubernetes(t.Context()) }
	examine(t, kube("", errors.New("cannot be read")), kubernetes).is(t, Fail, "cannot be read")
	examine(t, kube("current-context: here", nil), kubernetes).is(t, Fail, `"here" leads to no cluster`)
	at := "{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters: [{name: b, cluster: {server: '" + answers.URL + "'}}]}"
	examine(t, kube(at, nil), kubernetes).is(t, OK, "can be reached")
	examine(t, Options{AppErr: stepwell.Invalid("set it", "DAPR_HTTP_PORT: 0 is out of range")}, func(e *examination) { e.dapr(t.Context()) }).is(t, Fail, "out of range")
}

// TestClock: a database that was written in the future says that the clock has gone back.
func TestClock(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(e *examination) { e.clock(t.Context()) }
	examine(t, Options{App: app.Options{DB: db}}, check).is(t, OK, "zone")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(db, later, later); err != nil {
		t.Fatal(err)
	}
	f := examine(t, Options{App: app.Options{DB: db}}, check)
	f.is(t, Warn, "the database was written at")
}
