package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stepwell/stepwell"
)

// maxAnswer bounds what the server may answer.
const maxAnswer = 256 << 20

// client speaks to the API.
type client struct {
	base, key string
	http      *http.Client
}

func newClient(address, key string) (*client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, invalid("write it like "+defaultServer, "server: %q is no URL", address)
	}
	return &client{base: strings.TrimSuffix(address, "/"), key: key, http: &http.Client{}}, nil
}

// Call implements caller.
func (c *client) Call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	resp, err := c.open(ctx, method, path, query, body, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return err
	}
	return readAnswer(resp, answer)
}

// open makes a request and gives the answer, which is a success.
func (c *client) open(ctx context.Context, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
		header.Set("Content-Type", "application/json")
	}
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	req.Header = header
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, exitError(exitInterrupted)
		}
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "no answer from " + c.base, Hint: "start it with `stepwell serve`, or name another with --server", Err: err}
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

// problemOf reads the envelope of an error.
func problemOf(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	var e struct {
		Code    stepwell.Code `json:"code"`
		Message string        `json:"message"`
		Hint    string        `json:"hint"`
		Details []struct {
			Location string `json:"location"`
			Line     int    `json:"line"`
			Message  string `json:"message"`
			Hint     string `json:"hint"`
		} `json:"details"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Code == "" {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server answers " + resp.Status, Hint: "is it a stepwell server?"}
	}
	text := e.Message
	for _, d := range e.Details {
		place := d.Location
		if d.Line > 0 {
			place = fmt.Sprintf("line %d", d.Line)
		}
		text += "\n  " + strings.TrimPrefix(place+": "+d.Message, ": ")
		if d.Hint != "" {
			text += " (" + d.Hint + ")"
		}
	}
	return &stepwell.Error{Code: e.Code, Message: text, Hint: e.Hint}
}
