package dapr

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// sidecar is the HTTP API of the sidecar.
type sidecar struct {
	base, token string
	client      *http.Client
}

// tokenHint says what to do when the sidecar asks for another token.
const tokenHint = "give the server and its sidecar the same DAPR_API_TOKEN"

const (
	callTime  = 10 * time.Second
	maxAnswer = 8 << 20
)

func newSidecar(port int, token string) *sidecar {
	transport := &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute} // no proxy: it is on this machine
	return &sidecar{base: "http://127.0.0.1:" + strconv.Itoa(port), token: token, client: &http.Client{Transport: transport, Timeout: callTime}}
}

// answered is an answer of the sidecar.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// call asks the sidecar. An error is CodeUnavailable: it does not answer.
func (s *sidecar) call(ctx context.Context, method, path, contentType string, body []byte) (*answered, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if s.token != "" {
		req.Header.Set(tokenHeader, s.token)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the Dapr sidecar does not answer", Hint: "is it running? stepwell doctor asks it", Err: err}
	}
	defer resp.Body.Close()
	a := &answered{status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the answer of the Dapr sidecar is cut off", Err: err}
	}
	return a, nil
}

// ok is CodeUnavailable with what the sidecar says, unless it has done what was asked.
func (a *answered) ok(what string) error {
	if a.status >= 200 && a.status < 300 {
		return nil
	}
	var said struct {
		Code    string `json:"errorCode"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(a.body, &said) // else the status alone is told
	hint := "see the log of the sidecar, and its component"
	switch a.status {
	case http.StatusUnauthorized: // the answer is no JSON
		said.Message, hint = "it does not accept the token of DAPR_API_TOKEN", tokenHint
	case http.StatusForbidden:
		hint = "check DAPR_API_TOKEN and the scopes of the component"
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Hint: hint,
		Message: strings.TrimSpace(fmt.Sprintf("the Dapr sidecar refuses %s: %d %s %s", what, a.status, stepwell.Clip(said.Code, 100), stepwell.Clip(said.Message, 300)))}
}
