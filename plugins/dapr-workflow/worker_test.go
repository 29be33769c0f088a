package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
)

// hub stands in for a sidecar that wants a token, and lets nobody stay.
type hub struct {
	protos.UnimplementedTaskHubSidecarServiceServer
	asked chan bool // for work, with the token or without
}

func (h *hub) Hello(ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	right := len(md.Get("dapr-api-token")) == 1 && md.Get("dapr-api-token")[0] == "right"
	select {
	case h.asked <- right:
	case <-ctx.Done():
	}
	if !right {
		return nil, status.Error(codes.Unauthenticated, "api token")
	}
	return &emptypb.Empty{}, nil
}

func (h *hub) GetWorkItems(*protos.GetWorkItemsRequest, protos.TaskHubSidecarService_GetWorkItemsServer) error {
	return status.Error(codes.Unavailable, "shutting down")
}

// TestWorkerConnects: it comes again, with the token, for as long as it serves.
func TestWorkerConnects(t *testing.T) {
	h := &hub{asked: make(chan bool)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	protos.RegisterTaskHubSidecarServiceServer(s, h)
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	for _, token := range []string{"wrong", "right"} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		w := &worker{token: token, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		go func() { ended <- w.serve(ctx, l.Addr().String()) }()
		for range 3 {
			if got := <-h.asked; got != (token == "right") {
				t.Errorf("%s: %v", token, got)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestVerdicts: what a server answers, and what the workflow makes of it.
func TestVerdicts(t *testing.T) {
	large := &api.ExecutionDetail{Execution: api.Execution{ID: "x", Status: "completed"}, Result: json.RawMessage(`"` + strings.Repeat("a", maxValue) + `"`)}
	if v := verdictOf(large); len(v.Result) > 0 || !strings.Contains(v.Error, "/api/v1/executions/x") {
		t.Errorf("too large: %d bytes, %s", len(v.Result), v.Error)
	}
	for code, want := range map[string]bool{"invalid": true, "not_found": true, "conflict": true, "forbidden": true, "unauthenticated": false, "unavailable": false, "internal": false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_ = json.NewEncoder(w).Encode(map[string]string{"code": code, "message": "no"})
		}))
		c, err := client.New(client.Options{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = newActivities(c).run(t.Context(), startActivity, []byte(order))
		if _, is := errors.AsType[permanent](err); is != want {
			t.Errorf("%s: %v is permanent: %v", code, err, is)
		}
		s.Close()
	}
}
