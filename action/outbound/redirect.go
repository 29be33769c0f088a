package outbound

import (
	"fmt"
	"net/http"

	"github.com/stepwell/stepwell"
)

// redirect decides whether a redirect is followed. The rules: no more than Request.Redirects, only http
// and https, never from https to http; credentials stay with the origin that they were meant for, and so
// does a body. The address is checked when the connection is made, as always.
func (x *exchange) redirect(next *http.Request, via []*http.Request) error {
	if x.req.Redirects <= 0 {
		return http.ErrUseLastResponse
	}
	if len(via) > x.req.Redirects {
		return &Failure{Kind: KindLimit, Phase: "redirects", Err: &stepwell.Error{Code: stepwell.CodeLimit,
			Message: fmt.Sprintf("more than %d redirects", x.req.Redirects), Hint: "the server may send the request in circles"}}
	}
	switch scheme := next.URL.Scheme; {
	case scheme != "http" && scheme != "https":
		return blocked("a redirect leads to a %s URL", printable(scheme))
	case scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return blocked("a redirect leads from https to http")
	}
	if origin(next.URL) == x.origin {
		return nil
	}
	if next.Body != nil {
		if err := next.Body.Close(); err != nil {
			return err
		}
		return &Failure{Kind: KindBlocked, Err: &stepwell.Error{Code: stepwell.CodeInvalid,
			Message: "a redirect wants the body sent to another origin, " + x.redact.URL(next.URL), Hint: "if that is right, send it there in the first place"}}
	}
	for name := range next.Header {
		if SecretName(name) || name == "Idempotency-Key" || name == "Traceparent" || name == "Referer" {
			delete(next.Header, name)
		}
	}
	return nil
}
