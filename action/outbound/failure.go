package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Kind classifies failures of an exchange; kinds and statuses are the words of retry rules.
type Kind string

// The kinds.
const (
	KindInvalid   Kind = "invalid"   // the request cannot be sent
	KindBlocked   Kind = "blocked"   // the address, or a redirect, is not allowed
	KindBusy      Kind = "busy"      // a limit of ours, or an open breaker: nothing was sent
	KindDNS       Kind = "dns"       // the name has no address
	KindConnect   Kind = "connect"   // no connection
	KindTLS       Kind = "tls"       // no trust, or no TLS at all
	KindTimeout   Kind = "timeout"   // a limit of Timeouts, in Phase
	KindReset     Kind = "reset"     // the connection ended before the response
	KindTruncated Kind = "truncated" // the response ended early
	KindProtocol  Kind = "protocol"  // the response is not HTTP
	KindLimit     Kind = "limit"     // a size, or the number of redirects, in Phase
	KindContent   Kind = "content"   // the body is invalid
	KindStatus    Kind = "status"    // the status is not a success
	KindResult    Kind = "result"    // the response was judged a failure by its content
)

// Kinds lists the kinds that retry rules may name.
func Kinds() []Kind {
	return []Kind{KindBlocked, KindDNS, KindConnect, KindTLS, KindTimeout, KindReset, KindTruncated, KindProtocol, KindLimit, KindContent, KindResult}
}

// Failure is an exchange that did not succeed. Its text contains no secret of the request.
type Failure struct {
	Kind   Kind
	Phase  string        // of KindTimeout and KindLimit: which limit
	Status int           // of KindStatus
	After  time.Duration // how long to wait, if Told
	Told   bool          // the server, or a limit, said how long
	Err    *stepwell.Error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the error with code and hint.
func (f *Failure) Unwrap() error { return f.Err }

func invalid(message, hint string) *Failure {
	return &Failure{Kind: KindInvalid, Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: message, Hint: hint}}
}

// maxExcerpt is how much of a body an error shows (stac-and-media §2).
const maxExcerpt = 500

// StatusFailure is a response whose status is not a success, with the beginning of its body.
func (r *Response) StatusFailure(body []byte) *Failure {
	f := &Failure{Kind: KindStatus, Status: r.Status}
	f.After, f.Told = RetryAfter(r.Header, time.Now())
	message := fmt.Sprintf("%s answered %d", r.Redactor.URL(r.URL), r.Status)
	if text := http.StatusText(r.Status); text != "" {
		message += " " + text
	}
	if shown := r.Excerpt(body); shown != "" {
		message += ": " + shown
	}
	f.Err = &stepwell.Error{Code: codeOf(r.Status), Message: message, Hint: hintOf(r.Status)}
	return f
}

// Excerpt is the beginning of a body for an error's text, in one line and without secrets. Secrets are
// taken out before it is cut, so that no half of one remains.
func (r *Response) Excerpt(body []byte) string {
	text := r.Redactor.Text(strings.ToValidUTF8(string(body[:min(len(body), 64<<10)]), "\ufffd"))
	text = printable(strings.Join(strings.Fields(text), " "))
	if len(text) > maxExcerpt {
		text = strings.ToValidUTF8(text[:maxExcerpt], "") + " …"
	}
	return text
}

func codeOf(status int) stepwell.Code {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return stepwell.CodeNotFound
	case status == http.StatusConflict:
		return stepwell.CodeConflict
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return stepwell.CodeTimeout
	case status == http.StatusTooManyRequests:
		return stepwell.CodeLimit
	case status >= 500:
		return stepwell.CodeUnavailable
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge, status == http.StatusUnsupportedMediaType, status == http.StatusUnprocessableEntity:
		return stepwell.CodeInvalid
	}
	return stepwell.CodeFailed
}

func hintOf(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "the credentials are missing, wrong or do not reach this far"
	case http.StatusRequestEntityTooLarge:
		return "the server takes less at once; split the input in a step before"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return "raise redirects to follow it"
	}
	return ""
}

// failure explains an error of the transport. It is a table, tried from the sure to the general.
func (x *exchange) failure(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if errors.Is(err, action.ErrDeadline) {
		return action.ErrDeadline
	}
	if x.outer.Err() != nil {
		return context.Cause(x.outer)
	}
	shown := ""
	if u, err := url.Parse(x.req.URL); err == nil {
		shown = x.redact.URL(u) + ": "
	}
	if f, ok := errors.AsType[*Failure](context.Cause(x.ctx)); ok {
		return &Failure{Kind: f.Kind, Phase: f.Phase, Err: &stepwell.Error{Code: f.Err.Code, Message: shown + f.Err.Message, Hint: f.Err.Hint}}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL
	}
	kind, code := kindOf(err)
	return &Failure{Kind: kind, Err: &stepwell.Error{Code: code, Message: shown + x.redact.Text(printable(err.Error()))}}
}

func kindOf(err error) (Kind, stepwell.Code) {
	text := err.Error()
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return KindDNS, stepwell.CodeNotFound
		}
		return KindDNS, stepwell.CodeUnavailable
	}
	switch {
	case isTLS(err):
		return KindTLS, stepwell.CodeFailed
	case isAny(err, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe),
		strings.Contains(text, "server closed idle connection"), strings.Contains(text, "GOAWAY"), strings.Contains(text, "stream error"):
		return KindReset, stepwell.CodeUnavailable
	case strings.Contains(text, "response headers exceeded"), strings.Contains(text, "header list larger"):
		return KindLimit, stepwell.CodeLimit
	case strings.Contains(text, "malformed"), strings.Contains(text, "invalid byte in chunk length"), strings.Contains(text, "bad Content-Length"):
		return KindProtocol, stepwell.CodeFailed
	case strings.Contains(text, errChanged.Error()), strings.Contains(text, "http: ContentLength="):
		return KindInvalid, stepwell.CodeInvalid
	}
	return KindConnect, stepwell.CodeUnavailable
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch) || strings.HasPrefix(err.Error(), "tls: ") || strings.Contains(err.Error(), "remote error: tls")
}

// printable drops characters that would break a line of a log or a terminal, and limits the length.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	if len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "") + " …"
	}
	return text
}

func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
