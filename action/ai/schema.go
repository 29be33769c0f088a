package ai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// maxQuoted bounds the answer that the next attempt quotes, maxComplaint what is said to be wrong with it.
const (
	maxQuoted    = 64 << 10
	maxComplaint = 2000
	maxFlaws     = 10
)

// schemaURI names the schema of an answer; it is no address.
const schemaURI = "urn:stepwell:answer"

// noSchemas refuses every other schema: an answer's schema reads no file and asks nobody.
type noSchemas struct{}

// Load implements jsonschema.URLLoader.
func (noSchemas) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s, and only its own parts can be had", url)
}

// compileSchema prepares a schema. Its errors are CodeInvalid.
func compileSchema(schema any) (*jsonschema.Schema, error) {
	wrong := func(err error) error {
		return stepwell.Invalid("write it like {type: object, required: [title], properties: {title: {type: string}}}", "schema is not a JSON Schema: %s", stepwell.Head(err.Error(), maxComplaint))
	}
	raw, err := expr.Marshal(schema)
	if err != nil {
		return nil, wrong(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, wrong(err)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, wrong(errors.New("it is not an object"))
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noSchemas{})
	if err := c.AddResource(schemaURI, doc); err != nil {
		return nil, wrong(err)
	}
	compiled, err := c.Compile(schemaURI)
	if err != nil {
		return nil, wrong(err)
	}
	return compiled, nil
}

// judge parses an answer and holds it against the schema. Complaint says what is wrong with the answer, "" for nothing.
func judge(schema any, text string) (value any, complaint string, err error) {
	compiled, err := compileSchema(schema)
	if err != nil {
		return nil, "", err
	}
	if strings.TrimSpace(text) == "" {
		return nil, "it is empty", nil
	}
	if value, err = expr.Decode([]byte(unfenced(text))); err != nil {
		return nil, "it is not JSON: " + stepwell.Head(err.Error(), 300), nil
	}
	err = compiled.Validate(value)
	if flawed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return nil, flaws(flawed), nil
	}
	return value, "", err
}

// flaws says in one line what does not fit, and where.
func flaws(err *jsonschema.ValidationError) string {
	var list []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(list) == maxFlaws {
			return
		}
		if len(e.Causes) == 0 {
			at := "/" + strings.Join(e.InstanceLocation, "/")
			list = append(list, "at "+stepwell.Head(at, 200)+": "+stepwell.Head(e.ErrorKind.LocalizedString(message.NewPrinter(language.English)), 300))
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(err)
	return stepwell.Head(strings.Join(list, "; "), maxComplaint)
}

// refusedAnswer is an answer that did not fit, as later attempts remember it.
type refusedAnswer struct {
	Attempt   int    `json:"attempt"`
	Answer    string `json:"answer"`
	Complaint string `json:"complaint"`
}

func refusedKey(attempt int) string { return "ai.refused." + strconv.Itoa(attempt) }

// recallRefused is the last answer of an earlier attempt that did not fit, nil for none.
func recallRefused(ctx context.Context, call *action.Call) (*refusedAnswer, error) {
	for attempt := call.Attempt - 1; attempt > 0; attempt-- {
		raw, ok, err := call.Host.Recall(ctx, refusedKey(attempt))
		if err != nil {
			return nil, err
		}
		if ok {
			r := &refusedAnswer{}
			return r, json.Unmarshal(raw, r)
		}
	}
	return nil, nil
}

func recordRefused(ctx context.Context, call *action.Call, answer, complaint string) error {
	raw, err := json.Marshal(refusedAnswer{call.Attempt, stepwell.Head(answer, maxQuoted), complaint})
	if err != nil {
		return err
	}
	return call.Host.Record(ctx, refusedKey(call.Attempt), raw)
}
