package files

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/durable/durabletest"
)

func TestBucket(t *testing.T) {
	durabletest.Run(t, func(t *testing.T) durable.Shared {
		backend := s3mem.New()
		if err := backend.CreateBucket("data"); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(gofakes3.New(backend).Server())
		t.Cleanup(server.Close)
		b, err := NewBucket("s3://data/of/streams/", S3Options{Endpoint: server.URL, AccessKey: "key", SecretKey: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
