// Package client calls a server by its API, over a network or in this process.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
)

// prefix begins the path of every operation.
const prefix = "/api/v1"

// Limits of a client.
const (
	maxAnswer  = 256 << 20
	maxProblem = 1 << 20
)

// Options configure a Client.
type Options struct {
	// URL is that of the server. Defaults to http://127.0.0.1:8010.
	URL string
	// Token is an API key or a JSON Web Token. Defaults to none.
	Token string
	// HTTP sends the requests. Defaults to a client without a time limit: contexts have them.
	HTTP *http.Client
}

// Client calls a server. Its errors are stepwell.Errors with the code, message and hint of the answer; CodeUnavailable
// when there is no answer. It is safe for concurrent use.
//
// Changes of objects with an ETag take it as ifMatch: "" changes any version. Starts take a key: repeating a request
// with the same key starts nothing more.
type Client struct {
	base, token, via string
	http             *http.Client
}

// New returns a client. CodeInvalid when the URL is none.
func New(o Options) (*Client, error) {
	if o.URL == "" {
		o.URL = "http://127.0.0.1:8010"
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, stepwell.Invalid("write it like http://127.0.0.1:8010", "%q is not a URL of a server", stepwell.Clip(o.URL, 100))
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	return &Client{base: strings.TrimSuffix(o.URL, "/"), token: o.Token, http: o.HTTP}, nil
}

// Via returns a client whose changes are recorded as made through something: "mcp claude-code".
func (c *Client) Via(what string) *Client {
	other := *c
	other.via = access.CleanVia(what)
	return &other
}

// Call makes any call: body is sent as JSON unless it is nil, the answer is decoded into answer unless that is nil.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	_, err := c.call(ctx, method, path, query, nil, body, answer)
	return err
}

// CallIf is Call for objects with an ETag: unless ifMatch is "", it changes the object only if its ETag matches. It
// returns the ETag of the answer, "" when there is none.
func (c *Client) CallIf(ctx context.Context, method, path, ifMatch string, body, answer any) (tag string, err error) {
	h := http.Header{}
	if ifMatch != "" {
		h.Set("If-Match", ifMatch)
	}
	got, err := c.call(ctx, method, path, nil, h, body, answer)
	return got.Get("ETag"), err
}

// CallOnce is Call with a key: repeating the request with the same key starts nothing more. "" is no key.
func (c *Client) CallOnce(ctx context.Context, method, path, key string, body, answer any) error {
	h := http.Header{}
	if key != "" {
		h.Set("Idempotency-Key", key)
	}
	_, err := c.call(ctx, method, path, nil, h, body, answer)
	return err
}

// call also takes headers, and gives those of the answer.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, header http.Header, body, answer any) (http.Header, error) {
	res, err := c.open(ctx, method, path, query, header, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the answer broke off", Err: err}
	}
	if len(raw) == 0 || answer == nil {
		return res.Header, nil
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the answer to " + method + " " + path + " is not understood", Hint: "is it a Stepwell server?", Err: err}
	}
	return res.Header, nil
}

// open sends a request and gives the answer if it is a success; its body is the caller's to close.
func (c *Client) open(ctx context.Context, method, path string, query url.Values, header http.Header, body any) (*http.Response, error) {
	var content io.Reader
	raw, isReader := body.(io.Reader)
	if isReader {
		content = raw
	} else if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if size, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && isReader {
		req.ContentLength = size
	}
	if content != nil && !isReader {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.via != "" {
		req.Header.Set(access.ViaHeader, c.via)
	}
	res, err := c.http.Do(req)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "no answer from " + c.base, Hint: unreached(err), Err: err}
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		return nil, refusal(res)
	}
	return res, nil
}

// unreached is the hint for a server that did not answer.
func unreached(err error) string {
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return "it is there, but its certificate is not trusted: name the file with its authority in SSL_CERT_FILE"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "it is there, but does not speak TLS: write http:// instead of https://"
	}
	return "start it with `stepwell serve`, or name another server"
}

// refusal is the error that a server has answered.
func refusal(res *http.Response) error {
	if res.Request.Method == http.MethodHead {
		return headless(res)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the answer broke off", Err: err}
	}
	var p struct {
		api.Problem
		api.Readiness
	}
	err = json.Unmarshal(raw, &p)
	if err == nil && p.Code == "" && p.Reason != "" {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: p.Reason, Hint: "try again in a moment"}
	}
	if err != nil || p.Code == "" {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server answers " + res.Status, Hint: "is it a Stepwell server?"}
	}
	e := &stepwell.Error{Code: p.Code, Message: p.Message, Hint: p.Hint}
	if len(p.Details) > 1 || len(p.Details) == 1 && p.Details[0].Line > 0 {
		e.Err = Details(p.Details)
	}
	return e
}

// Details are all the things that are wrong with a request, as an error.
type Details []api.Detail

func (d Details) Error() string {
	var b strings.Builder
	for i := range d {
		place := d[i].Path
		if d[i].Line > 0 {
			place = fmt.Sprintf("line %d", d[i].Line)
		}
		b.WriteString("\n  " + strings.TrimPrefix(place+": "+d[i].Message, ": "))
		if d[i].Hint != "" {
			b.WriteString(" (" + d[i].Hint + ")")
		}
	}
	return b.String()
}

// at is the path of something, with its parts escaped.
func at(parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return prefix + "/" + strings.Join(parts, "/")
}

// get asks for something.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	var out T
	if err := c.Call(ctx, http.MethodGet, path, query, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// send sends something, with headers given as pairs; those without a value are left out.
func send[T any](ctx context.Context, c *Client, method, path string, body any, headers ...string) (*T, error) {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			h.Set(headers[i], headers[i+1])
		}
	}
	var out T
	if _, err := c.call(ctx, method, path, nil, h, body, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// queryOf makes query parameters of the fields that are tagged so, and not zero.
func queryOf(from any) url.Values {
	q := url.Values{}
	v := reflect.Indirect(reflect.ValueOf(from))
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, f := field.Tag.Get("query"), v.FieldByIndex(field.Index)
		if name == "" || f.IsZero() {
			continue
		}
		switch value := f.Interface().(type) {
		case string:
			q.Set(name, value)
		case int:
			q.Set(name, strconv.Itoa(value))
		case int64:
			q.Set(name, strconv.FormatInt(value, 10))
		case bool:
			q.Set(name, strconv.FormatBool(value))
		case []int:
			list := make([]string, len(value))
			for i, n := range value {
				list[i] = strconv.Itoa(n)
			}
			q.Set(name, strings.Join(list, ","))
		case []string:
			q.Set(name, strings.Join(value, ","))
		case time.Time:
			q.Set(name, value.UTC().Format(time.RFC3339Nano))
		}
	}
	return q
}
