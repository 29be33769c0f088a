package app_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// Everything that was answered as done is in the audit log after a stop, also what was answered in its last moment, and
// so is when a key was used.
func TestStopLosesNothingOfTheAuditLog(t *testing.T) {
	db, g := filepath.Join(t.TempDir(), "a.db"), newGate()
	s := serve(t, db, g, nil)
	_, token, err := access.NewKeys(s.Store, slog.New(slog.DiscardHandler)).Create(t.Context(), access.NewKey{Name: "chief", Role: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	var done, refused atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				req, err := http.NewRequestWithContext(t.Context(), "PUT", fmt.Sprintf("%s/api/v1/secrets/s%d_%d", s.URL(), worker, i%20), strings.NewReader(fmt.Sprintf(`{"value":"value-%d-%d"}`, worker, i)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Authorization", "Bearer "+token)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return // the server has gone
				}
				res.Body.Close()
				switch res.StatusCode {
				case http.StatusOK:
					if done.Add(1) == 40 {
						once.Do(func() { close(enough) })
					}
				case http.StatusTooManyRequests:
				case http.StatusServiceUnavailable:
					refused.Add(1)
					return
				default:
					t.Errorf("answered %d", res.StatusCode)
					return
				}
			}
		})
	}
	<-enough
	s.Drain()
	group.Wait()
	s.ended()

	kept, err := sqlite.Open(t.Context(), sqlite.Options{Path: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	entries, err := kept.AuditEntries(t.Context(), store.AuditFilter{Action: "secret.set", Limit: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	written := int64(0)
	for _, e := range entries {
		if e.Result == "ok" {
			written++
		}
		if e.Actor != "chief" || e.Role != "admin" || !strings.HasPrefix(e.Object, "s") || strings.Contains(fmt.Sprintf("%+v", e), "value-") {
			t.Fatalf("an entry is %+v", e)
		}
	}
	if written < done.Load() { // an answer may have been lost on its way
		t.Errorf("%d changes were answered, %d are in the audit log", done.Load(), written)
	}
	key, err := access.NewKeys(kept, slog.New(slog.DiscardHandler)).Key(t.Context(), "chief")
	if err != nil || key.LastUsed.IsZero() {
		t.Errorf("the key was used last at %v, %v", key.LastUsed, err)
	}
}
