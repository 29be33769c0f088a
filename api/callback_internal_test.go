package api

import "testing"

// What a callback says in our words is taken at its word, everything else is the outputs.
func TestCallbackBody(t *testing.T) {
	for sent, want := range map[string]string{
		``:                                    `{"by":"callback","outputs":{},"status":"completed"}`,
		`[1]`:                                 `{"by":"callback","outputs":{"body":[1]},"status":"completed"}`,
		`{"a":1}`:                             `{"by":"callback","outputs":{"a":1},"status":"completed"}`,
		`{"outputs":{"a":1}}`:                 `{"by":"callback","outputs":{"a":1},"status":"completed"}`,
		`{"outputs":[1]}`:                     `{"by":"callback","outputs":{"outputs":[1]},"status":"completed"}`,
		`{"outputs":{"a":1},"b":2}`:           `{"by":"callback","outputs":{"b":2,"outputs":{"a":1}},"status":"completed"}`,
		`{"status":"succeeded"}`:              `{"by":"callback","outputs":{"status":"succeeded"},"status":"completed"}`,
		`{"status":"failed","error":"x"}`:     `{"by":"callback","error":"x","status":"failed"}`,
		`{"status":"failed","error":{"a":1}}`: `{"by":"callback","error":"{\"a\":1}","status":"failed"}`,
		`{"status":"failed","error":null}`:    `{"by":"callback","error":null,"status":"failed"}`,
		`{"status":"failed","more":1}`:        `{"by":"callback","outputs":{"more":1,"status":"failed"},"status":"completed"}`,
	} {
		got, err := callbackBody([]byte(sent))
		if err != nil || string(got) != want {
			t.Errorf("%s became %s, %v; want %s", sent, got, err, want)
		}
	}
}
