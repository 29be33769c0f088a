package api

import (
	"context"
	"net/http"

	"github.com/stepwell/stepwell/store"
)

// health are the operations that say how the service is.
func (s *server) health() {
	handle(s, "health", s.getHealth)
	handle(s, "ready", s.getReady)
	handle(s, "healthz", s.getHealth)
	handle(s, "readyz", s.getReady)
}

// Vitals say how the process is.
type Vitals struct {
	Active    int    // executions that run or wait here
	Scheduler string // running, stopped or disabled
	Draining  bool   // it starts or stops
	Unready   string // why it takes no work; "" while it does
	Degraded  bool   // it takes work, but the lists of steps are away
	Dapr      bool   // its Dapr sidecar answered lately
}

// Health is budpipeline §4.4's answer.
type Health struct {
	Status    string `json:"status" enum:"healthy,draining,degraded" doc:"healthy while it takes work, draining while it starts or stops, degraded while the database takes nothing, or the Redis server with the lists of steps has been away for 5 seconds."`
	Dapr      bool   `json:"dapr_connected" doc:"Whether the Dapr sidecar has answered its health check within the last ten seconds. False without a sidecar too; stepwell doctor tells the two apart."`
	Active    int    `json:"active_workflows" doc:"Executions that run or wait."`
	Scheduler string `json:"scheduler_status" enum:"running,stopped,disabled"`
	Version   string `json:"version"`
}

func (s *server) getHealth(context.Context, *struct{}) (*answer[Health], error) {
	v := s.o.Vitals()
	h := Health{Status: "healthy", Active: v.Active, Scheduler: v.Scheduler, Version: s.o.Version, Dapr: v.Dapr}
	switch {
	case v.Draining:
		h.Status = "draining"
	case v.Unready != "" || v.Degraded:
		h.Status = "degraded"
	}
	return reply(h, nil)
}

// Readiness says whether the service can take work.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

type readyAnswer struct {
	Status int
	Body   Readiness
}

// getReady asks the store. The answer is 503 when it cannot be read or takes nothing, or when the process is about to stop.
func (s *server) getReady(ctx context.Context, _ *struct{}) (*readyAnswer, error) {
	switch v := s.o.Vitals(); {
	case v.Draining:
		return &readyAnswer{http.StatusServiceUnavailable, Readiness{Reason: "the service is starting or stopping"}}, nil
	case v.Unready != "":
		return &readyAnswer{http.StatusServiceUnavailable, Readiness{Reason: v.Unready}}, nil
	}
	if _, err := s.o.Store.Executions(ctx, store.Filter{Limit: 1}); err != nil {
		s.o.Log.Warn("not ready: the store cannot be read", "error", err)
		return &readyAnswer{http.StatusServiceUnavailable, Readiness{Reason: "the store cannot be read"}}, nil
	}
	return &readyAnswer{http.StatusOK, Readiness{Ready: true}}, nil
}
