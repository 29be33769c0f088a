package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Object is a resource of Kubernetes, or a part of one.
type Object map[string]any

// At is the value below keys, or nil.
func (o Object) At(keys ...string) any {
	var v any = map[string]any(o)
	for _, k := range keys {
		m, _ := v.(map[string]any) // nil where it is something else, and so is what is below
		v = m[k]
	}
	return v
}

// Text is the string below keys, or "".
func (o Object) Text(keys ...string) string {
	s, _ := o.At(keys...).(string)
	return s
}

// List is the list of objects below keys.
func (o Object) List(keys ...string) []Object {
	list, _ := o.At(keys...).([]any)
	var all []Object
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// StatusError is a request that was answered with an error.
type StatusError struct {
	Code   int
	Answer string
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Answer) }

// Do makes one request as the administrator. body is sent as JSON; nil: none.
func (c *Cluster) Do(ctx context.Context, method, path string, body any) (Object, error) {
	return c.send(ctx, method, path, "application/json", body)
}

// Patch merges a value into an object, or into its status (a path that ends with /status).
func (c *Cluster) Patch(ctx context.Context, path string, body any) (Object, error) {
	return c.send(ctx, "PATCH", path, "application/merge-patch+json", body)
}

func (c *Cluster) send(ctx context.Context, method, path, kind string, body any) (Object, error) {
	resp, err := c.open(ctx, method, path, kind, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var o Object
	return o, json.NewDecoder(resp.Body).Decode(&o)
}

// open sends a request whose answer may be a stream; the caller closes it.
func (c *Cluster) open(ctx context.Context, method, path, kind string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, sent)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "kubetest")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // the status says enough
		return nil, &StatusError{resp.StatusCode, string(answer)}
	}
	return resp, nil
}

// Open reads a path whose answer is not JSON, or does not end: a log, a watch. The caller closes it.
func (c *Cluster) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := c.open(ctx, "GET", path, "application/json", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// As is the cluster as another user sees it, by a token: for requests alone.
func (c *Cluster) As(token string) *Cluster {
	return &Cluster{URL: c.URL, CA: c.CA, Token: token, client: c.client}
}

// Get returns what is at a path, and fails the test where there is nothing.
func (c *Cluster) Get(t testing.TB, path string) Object {
	t.Helper()
	o, err := c.Do(t.Context(), "GET", path, nil)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return o
}

// Items returns the objects of a list: "/apis/batch/v1/namespaces/x/jobs".
func (c *Cluster) Items(t testing.TB, path string) []Object {
	t.Helper()
	return c.Get(t, path).List("items")
}

// Post creates an object, and fails the test when it cannot.
func (c *Cluster) Post(t testing.TB, path string, body any) Object {
	t.Helper()
	o, err := c.Do(t.Context(), "POST", path, body)
	if err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
	return o
}

// Namespace creates a namespace and deletes it, with what is in it, when the test ends.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	name := "test-" + strings.ToLower(rand.Text()[:12])
	c.Post(t, "/api/v1/namespaces", Object{"metadata": Object{"name": name}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = c.Do(ctx, "DELETE", "/api/v1/namespaces/"+name, nil) // the cluster ends with the tests
	})
	return name
}

// Account creates a service account that may do what rules say in its namespace, and nothing else, and returns a token of it.
// Rules are those of a Role: {"apiGroups": …, "resources": …, "verbs": …}.
func (c *Cluster) Account(t testing.TB, namespace string, rules ...Object) string {
	t.Helper()
	name := "account-" + strings.ToLower(rand.Text()[:8])
	meta := Object{"name": name}
	role := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	c.Post(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts", Object{"metadata": meta})
	c.Post(t, role+"/roles", Object{"metadata": meta, "rules": rules})
	c.Post(t, role+"/rolebindings", Object{"metadata": meta, "roleRef": Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
		"subjects": []Object{{"kind": "ServiceAccount", "name": name, "namespace": namespace}}})
	made := c.Post(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", Object{"spec": Object{"expirationSeconds": 3600}})
	return made.Text("status", "token")
}

// Await returns the object at a path once it is as done says; done gets nil where there is none. The test fails after a minute.
func (c *Cluster) Await(t testing.TB, path, what string, done func(Object) bool) Object {
	t.Helper()
	var last Object
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(50 * time.Millisecond) {
		o, err := c.Do(t.Context(), "GET", path, nil)
		var said *StatusError
		switch {
		case errors.As(err, &said) && said.Code == http.StatusNotFound:
			o = nil
		case err != nil: // the API server is being restarted
			continue
		}
		if last = o; done(o) {
			return o
		}
	}
	text, _ := json.Marshal(last) // was JSON
	t.Fatalf("%s is not %s: %s", path, what, text)
	return nil
}
