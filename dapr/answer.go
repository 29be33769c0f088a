package dapr

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// problem is the body of an error's answer, as those of the API.
type problem struct {
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
	Hint    string        `json:"hint"`
}

func answer(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // texts only
		raw = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // a sidecar that has gone asks again
}

// passes reports whether the same may succeed later: what is refused for good is not sent again.
func passes(err error) bool {
	return store.IsAway(err) || !trigger.Permanent(err)
}

// refusal is the answer to an error: only the text of errors with a code is shown.
func refusal(err error) (int, problem) {
	p := problem{Code: stepwell.CodeUnavailable, Message: "this cannot be taken now", Hint: "send it again"}
	status := http.StatusServiceUnavailable
	if coded, ok := errors.AsType[*stepwell.Error](err); ok {
		p = problem{Code: coded.Code, Message: coded.Message, Hint: coded.Hint}
	}
	switch {
	case passes(err):
	case p.Code == stepwell.CodeNotFound:
		status = http.StatusNotFound
	case p.Code == stepwell.CodeConflict:
		status = http.StatusConflict
	case p.Code == stepwell.CodeForbidden, p.Code == stepwell.CodeDenied:
		status = http.StatusForbidden
	default:
		status = http.StatusBadRequest
	}
	return status, p
}
