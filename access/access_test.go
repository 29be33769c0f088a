package access_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "a.db"), Synchronous: "normal", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func wantCode(t *testing.T, err error, code stepwell.Code, what string) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Errorf("%s: %v (%s), not %s", what, err, stepwell.CodeOf(err), code)
	}
}

func TestKeys(t *testing.T) {
	s := open(t)
	keys := access.NewKeys(s, nil)
	ctx := t.Context()
	if any, err := keys.Any(ctx); err != nil || any {
		t.Fatalf("%v, %v", any, err)
	}
	key, token, err := keys.Create(ctx, access.NewKey{Name: "ci", Role: access.Operator, By: "root"})
	if err != nil || !strings.HasPrefix(token, "sw_"+key.ID+"_") {
		t.Fatalf("%q, %v", token, err)
	}
	p, err := keys.Authenticate(ctx, token)
	if err != nil || p != (access.Principal{Name: "ci", Role: access.Operator, Kind: access.KindKey, KeyID: key.ID}) {
		t.Errorf("%+v, %v", p, err)
	}
	o, err := s.Object(ctx, access.ObjectKey, "ci")
	if err != nil || strings.Contains(string(o.Body), strings.SplitN(token, "_", 3)[2]) {
		t.Errorf("the key is stored: %s, %v", o.Body, err)
	}
	other, otherToken, err := keys.Create(ctx, access.NewKey{Name: "other", Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	mixed := "sw_" + key.ID + "_" + strings.Split(otherToken, "_")[2]
	for _, wrong := range []string{"", "sw_", "sw__", token + "A", token[:len(token)-1], strings.ToUpper(token), "sw_0000000000000000_" + strings.Split(token, "_")[2], mixed, token + "=", "SW" + token[2:]} {
		_, err := keys.Authenticate(ctx, wrong)
		wantCode(t, err, stepwell.CodeUnauthenticated, wrong)
	}
	if last := token[len(token)-1]; last != 'B' { // other bits beyond the last byte
		_, err := keys.Authenticate(ctx, token[:len(token)-1]+string(last+1))
		wantCode(t, err, stepwell.CodeUnauthenticated, "another spelling")
	}
	wantCode(t, keys.Delete(ctx, "other", store.AnyRevision), stepwell.CodeConflict, "deleting a key that works")
	if _, err := keys.Revoke(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	_, err = keys.Authenticate(ctx, otherToken)
	wantCode(t, err, stepwell.CodeUnauthenticated, "revoked")
	if err := keys.Delete(ctx, other.ID, store.AnyRevision); err != nil {
		t.Error(err)
	}
	if _, err := keys.Revoke(ctx, "ci"); err != nil {
		t.Error(err)
	}
	if any, err := keys.Any(ctx); err != nil || !any {
		t.Errorf("with a revoked key the server would be open: %v, %v", any, err)
	}
	for _, n := range []access.NewKey{{Role: access.Admin}, {Name: "x"}, {Name: "x", Role: 9}, {Name: " x", Role: access.Admin}, {Name: "x", Role: access.Admin, Expires: resource.At(time.Now().Add(-time.Second))}} {
		_, _, err := keys.Create(ctx, n)
		wantCode(t, err, stepwell.CodeInvalid, fmt.Sprintf("%+v", n))
	}
	_, _, err = keys.Create(ctx, access.NewKey{Name: "ci", Role: access.Admin})
	wantCode(t, err, stepwell.CodeConflict, "a name that is taken")
	if want := "an API key named "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
}

// shelf is a store.Objects in memory, for tests in which time is made to pass.
type shelf struct {
	store.Objects
	mu      sync.Mutex
	objects map[string]store.Object
	puts    int
}

func newShelf() *shelf { return &shelf{objects: map[string]store.Object{}} }

func (s *shelf) PutObjects(_ context.Context, objects ...store.Object) ([]store.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	for i := range objects {
		objects[i].Revision = max(objects[i].Revision, 0) + 1
		s.objects[objects[i].Kind+"/"+objects[i].ID] = objects[i]
	}
	return objects, nil
}

func (s *shelf) Object(_ context.Context, kind, id string) (*store.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if o.Kind == kind && (o.ID == id || o.Name == id) {
			return &o, nil
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "none"}
}

func (s *shelf) list(f store.ObjectFilter) (out []store.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if o.Kind == f.Kind {
			out = append(out, o)
		}
	}
	return out
}

// shelfStore gives the embedded interface's method of the same name.
type shelfStore struct{ *shelf }

func (s shelfStore) Objects(_ context.Context, f store.ObjectFilter) ([]store.Object, error) {
	return s.list(f), nil
}

func TestKeysOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shelfStore{newShelf()}
		here, there := access.NewKeys(s, nil), access.NewKeys(s, nil)
		ctx, stop := context.WithCancel(t.Context())
		key, token, err := here.Create(ctx, access.NewKey{Name: "k", Role: access.Viewer, Expires: resource.At(time.Now().Add(time.Hour))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := there.Authenticate(ctx, token); err != nil {
			t.Fatal(err)
		}
		ran := make(chan error)
		go func() { ran <- there.Run(ctx) }()
		before := s.puts
		for range 1000 {
			if _, err := there.Authenticate(ctx, token); err != nil {
				t.Fatal(err)
			}
			time.Sleep(119 * time.Millisecond)
		}
		if n := s.puts - before; n < 1 || n > 2 {
			t.Errorf("two minutes of use were written %d times", n)
		}
		if k, err := here.Key(ctx, "k"); err != nil || time.Since(k.LastUsed.Time) > 2*time.Minute {
			t.Errorf("last used %v, %v", k.LastUsed, err)
		}
		if _, err := here.Revoke(ctx, key.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		_, err = there.Authenticate(ctx, token)
		wantCode(t, err, stepwell.CodeUnauthenticated, "revoked elsewhere")
		_, second, err := here.Create(ctx, access.NewKey{Name: "l", Role: access.Viewer, Expires: resource.At(time.Now().Add(time.Hour))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Second)
		if _, err := there.Authenticate(ctx, second); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		_, err = there.Authenticate(ctx, second)
		wantCode(t, err, stepwell.CodeUnauthenticated, "expired")
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

func request(change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8010/api/v1/x", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	if change != nil {
		change(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func TestAnonymous(t *testing.T) {
	a := access.New(access.Options{Keys: access.NewKeys(open(t), nil), Loopback: true, Origins: []string{"https://ui.example.org"}})
	for name, change := range map[string]func(*http.Request){"plain": nil, "localhost": host("localhost:8010"), "IPv6": host("[::1]:8010"), "LOCALHOST": host("LOCALHOST"),
		"a page of this machine": header("Origin", "http://localhost:3000"), "an allowed page": header("Origin", "https://ui.example.org"), "same origin": header("Sec-Fetch-Site", "same-origin"),
		"IPv6 peer": func(r *http.Request) { r.RemoteAddr = "[::1]:4000" }, "127.9": host("127.9.9.9:1")} {
		p, err := a.Authenticate(request(change))
		if err != nil || p.Role != access.Admin || p.Kind != access.KindAnonymous {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, change := range map[string]func(*http.Request){"rebinding": host("attacker.example:8010"), "rebinding to a likely name": host("localhost.attacker.example"), "number": host("127.0.0.1.nip.io:8010"), "no host": host(""),
		"a page elsewhere": header("Origin", "https://attacker.example"), "null": header("Origin", "null"), "like localhost": header("Origin", "http://localhost.attacker.example"), "user": header("Origin", "http://localhost@attacker.example"),
		"file": header("Origin", "file://localhost"), "cross-site": header("Sec-Fetch-Site", "cross-site"), "a proxy": header("X-Forwarded-For", "203.0.113.9"), "another proxy": header("Forwarded", "for=203.0.113.9"),
		"another machine": func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" },
		"two origins": func(r *http.Request) {
			r.Header["Origin"] = []string{"http://localhost", "https://attacker.example"}
		}} {
		_, err := a.Authenticate(request(change))
		wantCode(t, err, stepwell.CodeForbidden, name)
	}
	shut := access.New(access.Options{})
	_, err := shut.Authenticate(request(nil))
	wantCode(t, err, stepwell.CodeUnauthenticated, "not on loopback")
}

func TestAFirstKeyClosesTheDoor(t *testing.T) {
	keys := access.NewKeys(open(t), nil)
	a := access.New(access.Options{Keys: keys, Loopback: true})
	if _, err := a.Authenticate(request(nil)); err != nil {
		t.Fatal(err)
	}
	_, token, err := keys.Create(t.Context(), access.NewKey{Name: "k", Role: access.Editor})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Authenticate(request(nil))
	wantCode(t, err, stepwell.CodeUnauthenticated, "without a key")
	for name, change := range map[string]func(*http.Request){"bearer": header("Authorization", "Bearer "+token), "small": header("Authorization", "bearer  "+token), "X-API-Key": header("X-API-Key", token),
		"websocket": func(r *http.Request) {
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-WebSocket-Protocol", "stepwell, stepwell.bearer."+token)
		}} {
		p, err := a.Authenticate(request(change))
		if err != nil || p.Role != access.Editor {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, change := range map[string]func(*http.Request){"basic": header("Authorization", "Basic "+token), "empty": header("Authorization", "Bearer "), "a token": header("Authorization", "Bearer a.b.c"),
		"huge": header("Authorization", "Bearer "+strings.Repeat("x", 9000)), "subprotocol of no websocket": header("Sec-WebSocket-Protocol", "stepwell.bearer."+token),
		"two": func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("X-API-Key", token)
		}} {
		_, err := a.Authenticate(request(change))
		wantCode(t, err, stepwell.CodeUnauthenticated, name)
		if err != nil && strings.Contains(err.Error()+stepwell.HintOf(err), token) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

func TestClientAddr(t *testing.T) {
	proxies, err := access.NewProxies("10.0.0.0/8", "::ffff:192.168.0.0/120", "2001:db8::1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ remote, forwarded, want string }{
		{"203.0.113.5:1", "1.2.3.4", "203.0.113.5"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"10.0.0.1:1", "1.2.3.4", "1.2.3.4"},
		{"10.0.0.1:1", "6.6.6.6, 1.2.3.4", "1.2.3.4"},
		{"10.0.0.1:1", "6.6.6.6, 1.2.3.4, 10.9.9.9", "1.2.3.4"},
		{"10.0.0.1:1", "1.2.3.4:5555", "1.2.3.4"},
		{"10.0.0.1:1", "[2001:db8::2]:5555", "2001:db8::2"},
		{"10.0.0.1:1", "1.2.3.4, nonsense", "10.0.0.1"},
		{"10.0.0.1:1", "1.2.3.4, nonsense, 10.2.2.2", "10.2.2.2"},
		{"10.0.0.1:1", "10.1.1.1, 10.2.2.2", "10.1.1.1"},
		{"[::ffff:192.168.1.1]:1", "1.2.3.4", "192.168.1.1"},
		{"[::ffff:192.168.0.1]:1", "1.2.3.4", "1.2.3.4"},
		{"[2001:db8::1]:1", "1.2.3.4", "1.2.3.4"},
		{"@", "1.2.3.4", "invalid IP"},
		{"10.0.0.1:1", strings.Repeat("10.0.0.2, ", 5000) + "10.0.0.3", "10.0.0.2"},
	} {
		r := request(func(r *http.Request) {
			r.RemoteAddr = c.remote
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			r.Header.Set("X-User-ID", "ada")
		})
		if got := proxies.ClientAddr(r).String(); got != c.want {
			t.Errorf("%+.60v: %s", c, got)
		}
		trusted := proxies.Trusts(netip.MustParseAddrPort(strings.Replace(c.remote, "@", "1.1.1.1:1", 1)).Addr().Unmap())
		if got := proxies.UserOf(r); (got == "ada") != trusted {
			t.Errorf("%+.60v: user %q", c, got)
		}
	}
	var nobody *access.Proxies
	if got := nobody.ClientAddr(request(header("X-Forwarded-For", "1.2.3.4"))).String(); got != "127.0.0.1" {
		t.Errorf("without proxies: %s", got)
	}
	two := request(func(r *http.Request) {
		r.RemoteAddr = "10.0.0.1:1"
		r.Header["X-Forwarded-For"] = []string{"6.6.6.6", "1.2.3.4"}
	})
	if got := proxies.ClientAddr(two).String(); got != "1.2.3.4" {
		t.Errorf("two lines: %s", got)
	}
	_, err = access.NewProxies("example.org")
	wantCode(t, err, stepwell.CodeInvalid, "a name")
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := access.NewLimiter(access.LimitOptions{Rate: 2, Burst: 3, Callers: 10})
		for i := range 3 {
			if ok, _ := l.Allow("a"); !ok {
				t.Fatalf("request %d", i)
			}
		}
		ok, after := l.Allow("a")
		if ok || after != 500*time.Millisecond {
			t.Errorf("%v, %v", ok, after)
		}
		if ok, _ := l.Allow("b"); !ok {
			t.Error("another caller is held up")
		}
		time.Sleep(after)
		if ok, _ := l.Allow("a"); !ok {
			t.Error("after the time that was said")
		}
		for i := range 100_000 {
			l.Allow(fmt.Sprint("stranger ", i))
			if i%3 == 0 {
				l.Allow("a") // who asks is not forgotten
			}
		}
		if ok, _ := l.Allow("a"); ok {
			t.Error("strangers make the limiter forget")
		}
		if n := l.Remembered(); n > 12 {
			t.Errorf("%d callers are remembered", n)
		}
	})
}

func TestCaller(t *testing.T) {
	a, b := netip.MustParseAddr("2001:db8:1:2::3"), netip.MustParseAddr("2001:db8:1:2:ffff::4")
	if access.Caller(access.Principal{}, a) != access.Caller(access.Principal{}, b) {
		t.Error("a network of 64 bits is many callers")
	}
	if access.Caller(access.Principal{KeyID: "x"}, a) == access.Caller(access.Principal{}, a) || access.Caller(access.Principal{Kind: access.KindToken, Name: "x"}, a) == access.Caller(access.Principal{KeyID: "x"}, a) {
		t.Error("different callers are the same")
	}
}

// ledger takes audit entries, and fails for as long as it is told to.
type ledger struct {
	mu      sync.Mutex
	entries []store.AuditEntry
	calls   int
	fails   int
}

func (l *ledger) AppendAudit(_ context.Context, entries []store.AuditEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; l.calls <= l.fails {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the disk is full"}
	}
	l.entries = append(l.entries, entries...)
	return nil
}

func TestRecorderLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{fails: 3}
		r := access.NewRecorder(l, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- r.Run(ctx) }()
		var writers sync.WaitGroup
		for w := range 30 {
			writers.Go(func() {
				for i := range 1000 {
					if err := r.Record(context.Background(), store.AuditEntry{Actor: fmt.Sprint(w), Object: fmt.Sprint(i)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		stop()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
		if err := r.Record(t.Context(), store.AuditEntry{Actor: "late"}); err != nil {
			t.Error(err)
		}
		next := map[string]int{}
		for _, e := range l.entries {
			if e.Actor != "late" && e.Object != fmt.Sprint(next[e.Actor]) {
				t.Fatalf("%s: %s comes after %d", e.Actor, e.Object, next[e.Actor]-1)
			}
			next[e.Actor]++
		}
		if len(l.entries) != 30_001 || l.calls > 1000 {
			t.Errorf("%d entries in %d calls", len(l.entries), l.calls)
		}
	})
}

// A database that is cut off in the moment of the end comes back within a few seconds.
func TestRecorderWaitsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{fails: 20}
		r := access.NewRecorder(l, slog.New(slog.DiscardHandler))
		if err := r.Record(t.Context(), store.AuditEntry{Actor: "last"}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := r.Run(ctx); err != nil || len(l.entries) != 1 {
			t.Errorf("%v, %d entries", err, len(l.entries))
		}
	})
}

func TestRecorderSaysWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := access.NewRecorder(&ledger{fails: 1 << 30}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- r.Run(ctx) }()
		for range 10_000 {
			if err := r.Record(ctx, store.AuditEntry{}); err != nil {
				t.Fatal(err)
			}
		}
		full, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		wantCode(t, r.Record(full, store.AuditEntry{}), stepwell.CodeUnavailable, "too many")
		stop()
		if err := <-ran; err == nil {
			t.Error("entries were lost without a word")
		}
	})
}

func TestRoles(t *testing.T) {
	p := access.Principal{Name: "ada", Role: access.Operator}
	if err := errors.Join(p.Need(access.Viewer), p.Need(access.Operator)); err != nil {
		t.Error(err)
	}
	wantCode(t, p.Need(access.Editor), stepwell.CodeForbidden, "too little")
	wantCode(t, access.Of(t.Context()).Need(access.Viewer), stepwell.CodeForbidden, "nobody")
	if access.Of(access.With(t.Context(), p)) != p {
		t.Error("the context loses the principal")
	}
	var r access.Role
	for _, bad := range []string{"", "none", "root", "Admin"} {
		wantCode(t, r.UnmarshalText([]byte(bad)), stepwell.CodeInvalid, bad)
	}
	if err := r.UnmarshalText([]byte("admin")); err != nil || r != access.Admin {
		t.Errorf("%v, %v", r, err)
	}
}

// A key that another process has created is known at its first use, also right after the keys were read.
func TestKeyOfAnotherProcess(t *testing.T) {
	s := open(t)
	here, there := access.NewKeys(s, nil), access.NewKeys(s, nil)
	if _, err := here.Any(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, token, err := there.Create(t.Context(), access.NewKey{Name: "new", Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := here.Authenticate(t.Context(), token); err != nil || p.Name != "new" {
		t.Errorf("%+v, %v", p, err)
	}
}
