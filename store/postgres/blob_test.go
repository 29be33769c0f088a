package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/store/storetest"
)

// TestBlobsInFolder: a folder that processes share holds the large outputs.
func TestBlobsInFolder(t *testing.T) {
	openIn := opener("")
	storetest.Run(t, func(t *testing.T, place string) storetest.Store {
		s := openIn(t, place).(*Store)
		t.Cleanup(func() { _ = s.Close() }) // for its address alone
		return open(t, Options{URL: s.o.URL + "&blobs=" + url.QueryEscape(filepath.Join(place, "blobs"))})
	}, "blobs")
	first, second := open(t, Options{}), fresh(t)
	folder := "&blobs=" + url.QueryEscape(t.TempDir())
	open(t, Options{URL: first.o.URL + folder})
	if err := postgrestest.Exec(second, "UPDATE identity SET id = 'another'"); err != nil { // both are copies of one
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{URL: second + folder}); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Errorf("another database's folder: %v", err)
	}
}

// TestBlobsAtOnePlace: a server with another place for blobs than one that lives does not join; the same place may have several paths.
func TestBlobsAtOnePlace(t *testing.T) {
	first, here, elsewhere := open(t, Options{}), t.TempDir(), t.TempDir()
	mounted := filepath.Join(t.TempDir(), "mounted")
	if err := os.Symlink(here, mounted); err != nil {
		t.Fatal(err)
	}
	join := func(path string) (*Store, int64, error) {
		s := open(t, Options{URL: first.o.URL + "&blobs=" + url.QueryEscape(path)})
		no, _, err := s.Join(t.Context(), "http://127.0.0.1:1", time.Minute)
		return s, no, err
	}
	one, a, err := join(here)
	if err != nil {
		t.Fatal(err)
	}
	two, b, err := join(mounted)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{elsewhere, ""} {
		if _, _, err := join(path); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), "another place for large outputs") {
			t.Errorf("with blobs=%s: %v", path, err)
		}
	}
	if err := errors.Join(one.Leave(t.Context(), a), two.Leave(t.Context(), b)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := join(elsewhere); err != nil {
		t.Errorf("when the others have left: %v", err)
	}
}

// TestBlobsElsewhere: a server that has another place for blobs than those before it says so when it joins.
func TestBlobsElsewhere(t *testing.T) {
	first := open(t, Options{})
	join := func(parameters string) string {
		t.Helper()
		var out bytes.Buffer
		s := open(t, Options{URL: first.o.URL + parameters, Log: slog.New(slog.NewTextHandler(&out, nil))})
		no, _, err := s.Join(t.Context(), "http://127.0.0.1:1", time.Minute)
		if err == nil {
			err = s.Leave(t.Context(), no)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	folder, empty := "&blobs="+url.QueryEscape(t.TempDir()), "&blobs="+url.QueryEscape(t.TempDir())
	use := func(s *Store, execution int) {
		t.Helper()
		ref, err := s.Blobs().Put(t.Context(), []byte(strconv.Itoa(execution)))
		if err != nil {
			t.Fatal(err)
		}
		hash, _, _ := strings.Cut(strings.TrimPrefix(ref, "@sha256:"), ":")
		if err := postgrestest.Exec(first.o.URL, fmt.Sprintf("INSERT INTO blob_use VALUES (%d, decode('%s', 'hex'))", execution, hash)); err != nil {
			t.Fatal(err)
		}
	}
	if out := join(folder); out != "" {
		t.Errorf("before the first blob: %s", out)
	}
	use(open(t, Options{URL: first.o.URL + folder}), 1)
	for _, parameters := range []string{"", empty} {
		if out := join(parameters); !strings.Contains(out, "none of 1 is there") {
			t.Errorf("with %q in the address: %s", parameters, out)
		}
	}
	use(first, 2)
	for _, parameters := range []string{"", folder} { // some of them
		if out := join(parameters); out != "" {
			t.Errorf("with %q in the address: %s", parameters, out)
		}
	}
}

// bucketOf starts an S3 service on which all objects are as old as it says.
func bucketOf(t *testing.T, at time.Time) *s3mem.Backend {
	t.Helper()
	backend := s3mem.New(s3mem.WithTimeSource(gofakes3.FixedTimeSource(at)))
	if err := backend.CreateBucket("blobs"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	return backend
}

// TestBlobsInBucket: an S3 service holds them, the database their references and ages.
func TestBlobsInBucket(t *testing.T) {
	bucketOf(t, time.Now())
	storetest.Run(t, opener("&blobs="+url.QueryEscape("s3://blobs/of/stepwell/")), "blobs")
}

// TestBucketIsSwept: an object without a row, as the death of a process leaves one, is removed; those with rows stay.
func TestBucketIsSwept(t *testing.T) {
	backend := bucketOf(t, time.Now().Add(-72*time.Hour))
	s := open(t, Options{URL: fresh(t) + "&blobs=s3://blobs"})
	ref, err := s.Blobs().Put(t.Context(), []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	hash, _, err := store.ParseRef(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.blobs.(*table).bodies.put(t.Context(), hash+"-lost", []byte("value")); err != nil {
		t.Fatal(err)
	}
	count := func() int64 {
		t.Helper()
		list, err := backend.ListBucket("blobs", nil, gofakes3.ListBucketPage{})
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(list.Contents))
	}
	if n := count(); n != 2 {
		t.Fatalf("%d objects, want 2", n)
	}
	for more := true; more; {
		if _, more, err = s.Prune(t.Context(), store.Retention{Executions: time.UnixMicro(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := s.Blobs().Load(t.Context(), ref); err != nil || string(v) != "value" || count() != 1 {
		t.Errorf("%q, %v, %d objects", v, err, count())
	}
}
