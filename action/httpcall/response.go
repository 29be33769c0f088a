package httpcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
)

// answer is a response that has been read.
type answer struct {
	status  int
	header  http.Header
	url     *url.URL
	body    any
	file    map[string]any // when the body is in a file
	redact  *outbound.Redactor
	metrics map[string]any
	tokens  int // that the service says it has used
}

// reading configures how to read a response and when it is a success.
type reading struct {
	as          string
	path, spill string // absolute
	max         int64
	success     any // nil: a status of 2xx
	quiet       bool
	prices      map[string]price
}

func (p *params) reading(call *action.Call) reading {
	return reading{as: or(p.Response, "auto"), path: resolve(call, or(p.Path, p.fileName())), spill: resolve(call, p.Spill), max: p.MaxBytes, success: p.SuccessIf, prices: p.Prices}
}

// fileName is empty unless the response goes to a file that has no path, whose name is then the URL's last part.
func (p *params) fileName() string {
	if p.Response != "file" {
		return ""
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return "download"
	}
	name := u.Path[strings.LastIndex(u.Path, "/")+1:]
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "\\:\x00") {
		return "download"
	}
	return name
}

// read reads the body and judges the response. The body of a failure is read as text for its error, unless success_if
// needs it.
func (a *answer) read(call *action.Call, resp *outbound.Response, method string, how reading) error {
	good := a.status >= 200 && a.status < 300
	if how.success == nil && !good {
		return resp.StatusFailure(excerpt(resp))
	}
	if how.as == "file" {
		if err := a.judge(call, resp, how, nil); err != nil {
			return err
		}
		return a.save(how.path, resp.Body, how.max)
	}
	raw, err := a.decode(resp, method, how, good)
	if err != nil {
		f, ok := errors.AsType[*outbound.Failure](err)
		if !good && ok && (f.Kind == outbound.KindContent || f.Kind == outbound.KindTruncated) {
			return resp.StatusFailure(raw) // the status says more
		}
		return err
	}
	return a.judge(call, resp, how, raw)
}

// judge asks success_if.
func (a *answer) judge(call *action.Call, resp *outbound.Response, how reading, raw []byte) error {
	if how.success == nil {
		return nil
	}
	ok, err := action.Holds(call.Host, how.success, a.scope())
	switch {
	case err != nil:
		return action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "success_if: " + a.redact.Text(err.Error())})
	case ok:
		return nil
	}
	if raw == nil {
		raw = excerpt(resp)
	}
	if a.status < 200 || a.status >= 300 {
		return resp.StatusFailure(raw)
	}
	return resultFailure(outbound.KindResult, fmt.Sprintf("%s answered %d, but success_if is false: %s", a.redact.URL(a.url), a.status, resp.Excerpt(raw)))
}

// excerpt is the beginning of a body for an error; that it ends early does not matter.
func excerpt(resp *outbound.Response) []byte {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil && len(raw) == 0 {
		return nil
	}
	return raw
}

// decode reads the body in its format, and returns the part for errors.
func (a *answer) decode(resp *outbound.Response, method string, how reading, good bool) ([]byte, error) {
	if method == http.MethodHead || a.status == http.StatusNoContent || a.status == http.StatusNotModified || how.as == "none" {
		return []byte{}, nil
	}
	kind, attrs := mediaType(a.header)
	as := how.as
	if as == "auto" || !good {
		as = guess(kind)
	}
	if as == "events" || as == "lines" {
		list, err := collect(resp.Body, as, how.max)
		a.body = list
		return []byte{}, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, how.max+1))
	if err != nil {
		return raw, err
	}
	if int64(len(raw)) > how.max {
		if how.spill != "" {
			return raw[:0], a.save(how.spill, io.MultiReader(bytes.NewReader(raw), resp.Body), maxFile)
		}
		return nil, tooLarge(how.max, "take more with max_bytes, or write it to a file: response: file, or spill")
	}
	switch {
	case as == "json":
		return raw, a.decodeJSON(raw, how.as == "json")
	case len(raw) == 0 && how.as == "auto":
		return raw, nil
	case as == "text" || utf8.Valid(raw):
		a.body = textOf(raw, attrs["charset"])
		return raw, nil
	case how.spill != "":
		return raw[:0], a.save(how.spill, bytes.NewReader(raw), how.max)
	}
	return nil, resultFailure(outbound.KindContent, fmt.Sprintf("the response is %s and no text; write it to a file with response: file", or(kind, "of no known type")))
}

func tooLarge(limit int64, hint string) error {
	return &outbound.Failure{Kind: outbound.KindLimit, Phase: "body", Err: &stepwell.Error{Code: stepwell.CodeLimit,
		Message: fmt.Sprintf("the response is larger than %d bytes", limit), Hint: hint}}
}

func mediaType(h http.Header) (string, map[string]string) {
	kind, attrs, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil { // the usable part
		kind, _, _ = strings.Cut(strings.ToLower(h.Get("Content-Type")), ";")
		kind = strings.TrimSpace(kind)
	}
	return kind, attrs
}

// guess is the way to read a media type; "" looks at the bytes.
func guess(kind string) string {
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return "json"
	case kind == "text/event-stream":
		return "events"
	case kind == "application/x-ndjson", kind == "application/ndjson", kind == "application/jsonl", kind == "application/x-jsonlines":
		return "lines"
	case strings.HasPrefix(kind, "text/"):
		return "text"
	}
	return ""
}

// decodeJSON distinguishes truncated text from text that is not JSON. An empty body is null, unless JSON was asked for.
func (a *answer) decodeJSON(raw []byte, wanted bool) error {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(raw)) == 0 {
		if wanted {
			return resultFailure(outbound.KindTruncated, "the response is empty, not JSON")
		}
		return nil
	}
	v, err := expr.Decode(raw)
	if err == nil {
		a.body = v
		return nil
	}
	var any json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(raw))
	if derr := dec.Decode(&any); errors.Is(derr, io.ErrUnexpectedEOF) {
		return resultFailure(outbound.KindTruncated, "the response is JSON that ends early")
	}
	return resultFailure(outbound.KindContent, "the response is not JSON: "+a.redact.Text(err.Error()))
}

// textOf makes UTF-8 of a text; latin-1 is the one other charset that is still met.
func textOf(raw []byte, charset string) string {
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "windows-1252":
		runes := make([]rune, len(raw))
		for i, b := range raw {
			runes[i] = rune(b)
		}
		return string(runes)
	}
	return strings.ToValidUTF8(string(raw), "\ufffd")
}
