package app

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	sidecarEvery = 5 * time.Second  // between two questions to the sidecar
	sidecarFresh = 10 * time.Second // how long its answer counts
)

// sidecar knows whether the local Dapr sidecar answers.
type sidecar struct {
	url    string
	client *http.Client
	well   atomic.Int64 // when it last said so, in ns; 0: never
}

// newSidecar is nil without a port.
func newSidecar(port int) *sidecar {
	if port == 0 {
		return nil
	}
	return &sidecar{url: "http://127.0.0.1:" + strconv.Itoa(port) + "/v1.0/healthz", client: &http.Client{Timeout: 2 * time.Second}}
}

// Run asks the sidecar until ctx ends.
func (d *sidecar) Run(ctx context.Context) error {
	defer d.client.CloseIdleConnections()
	ticker := time.NewTicker(sidecarEvery)
	defer ticker.Stop()
	for {
		if d.ask(ctx) {
			d.well.Store(time.Now().UnixNano())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask reports whether the sidecar is healthy.
func (d *sidecar) ask(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return false
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusNoContent
}

// connected reports whether the sidecar has answered lately. Without one it is false.
func (d *sidecar) connected() bool {
	if d == nil {
		return false
	}
	well := d.well.Load()
	return well != 0 && time.Since(time.Unix(0, well)) < sidecarFresh
}
