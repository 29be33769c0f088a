package service

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
)

// sidecarFailure reads a failed answer that came through a Dapr sidecar: the sidecar's own errors are no answer of the
// service. An unreachable service is retried by the step's policy; a service's own status means the same as everywhere
// (platform design §1).
func sidecarFailure(resp *outbound.Response, body []byte) *outbound.Failure {
	f := resp.StatusFailure(body)
	var said struct {
		Code    string `json:"errorCode"`
		Message string `json:"message"`
	}
	ofSidecar := json.Unmarshal(body, &said) == nil && strings.HasPrefix(said.Code, "ERR_")
	switch {
	case resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden && !strings.Contains(said.Message, "failed to invoke"):
		if ofSidecar || strings.TrimSpace(string(body)) == wrongToken {
			f.Err.Hint = "the sidecar refused the call: check DAPR_API_TOKEN and the access policies of the app"
		}
	case ofSidecar && tooLarge(said.Message):
		f.Status, f.Err.Code = http.StatusRequestEntityTooLarge, stepwell.CodeInvalid
		f.Err.Hint = "hand large values over in files or objects of a bucket, or raise the sidecars' max-body-size (4 MiB by default)"
	case ofSidecar && (resp.Status >= http.StatusInternalServerError || resp.Status == http.StatusForbidden):
		f.Kind, f.Err.Code = kindOf(said.Code, strings.ToLower(said.Message)), stepwell.CodeUnavailable
	}
	return f
}

// wrongToken is all that a sidecar answers with 401 to a request without its token.
const wrongToken = "invalid api token"

// tooLarge reports whether a sidecar takes no call of that size: its own limit, or that of the app's sidecar.
func tooLarge(message string) bool {
	return strings.Contains(message, "stream too large") || strings.Contains(message, "request body too large") || strings.Contains(message, "message larger than max")
}

// secretMissing reports whether a sidecar has failed to read a secret because its store does not have it: stores of a file and
// of Kubernetes say so in a text only.
func secretMissing(body []byte) bool {
	var said struct {
		Code    string `json:"errorCode"`
		Message string `json:"message"`
	}
	return json.Unmarshal(body, &said) == nil && said.Code == "ERR_SECRET_GET" && strings.Contains(strings.ToLower(said.Message), "not found")
}

// kindOf classifies why a sidecar could not reach the app.
func kindOf(code, message string) outbound.Kind {
	has := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(message, text) {
				return true
			}
		}
		return false
	}
	switch {
	case code != "ERR_DIRECT_INVOKE":
	case has("no host found", "couldn't find service", "resolve"):
		return outbound.KindDNS
	case has("app channel", "connection refused", "unavailable", "not ready"):
		return outbound.KindConnect
	}
	return outbound.KindProtocol
}

// named replaces the sidecar's address in a failure's text by the name of the app.
func (p place) named(f *outbound.Failure, app string) *outbound.Failure {
	if !p.sidecar() {
		return f
	}
	told := *f.Err
	told.Message = strings.ReplaceAll(told.Message, p.base.String(), app+" ")
	if f.Kind == outbound.KindConnect && told.Hint == "" && f.Status == 0 {
		told.Hint = "is the Dapr sidecar running? stepwell doctor asks it"
	}
	f.Err = &told
	return f
}
