package meter

import (
	"net/http"
	"strconv"
	"time"
)

// Request counts a request that was answered. A stream's duration is not measured.
func (m *Meter) Request(route, method string, status int, took time.Duration, streams bool) {
	if route == "" {
		route = "other"
	}
	m.m.requests.WithLabelValues(route, verb(method), strconv.Itoa(status)).Inc()
	if !streams {
		m.m.requestTime.WithLabelValues(route).Observe(took.Seconds())
	}
}

// verb limits the label values that clients may invent.
func verb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
