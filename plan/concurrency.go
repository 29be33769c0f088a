package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/partition"
)

// maxKey bounds a concurrency key, in bytes.
const maxKey = 1000

// Policies for an execution without a free slot (Concurrency.OnConflict).
const (
	OnConflictQueue         = "queue"
	OnConflictSkip          = "skip"
	OnConflictCancelRunning = "cancel_running"
)

// Concurrency limits the executions that share a key, across pipelines.
type Concurrency struct {
	Limit      int    // at least 1
	OnConflict string // OnConflictQueue, …

	key       *Value
	partition *partition.Setting // without a key: executions that make the same partition share it
	pipeline  string
}

func concurrency(d *definition.Definition) (*Concurrency, error) {
	c := d.Settings.Concurrency
	switch {
	case c == nil && d.Settings.Partition != nil:
		return &Concurrency{Limit: 1, OnConflict: OnConflictQueue, partition: d.Settings.Partition, pipeline: d.Name}, nil
	case c == nil:
		return nil, nil
	}
	key, err := CompileValue(c.Key)
	if err != nil {
		return nil, fmt.Errorf("settings.concurrency.key%w", err)
	}
	return &Concurrency{Limit: max(c.Limit, 1), OnConflict: cmp.Or(c.OnConflict, OnConflictQueue), key: key, pipeline: d.Name}, nil
}

// Key is the concurrency key for these params. An empty, null or too long one is CodeInvalid.
func (c *Concurrency) Key(params map[string]any) (string, error) {
	if params == nil {
		params = map[string]any{}
	}
	if c.partition != nil {
		return c.ofPartition(params)
	}
	v, err := c.key.Render(expr.Vars{"params": params, "execution": map[string]any{"pipeline": c.pipeline}}, expr.Limits{})
	if err != nil {
		return "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "settings.concurrency.key", Err: err}
	}
	key := ""
	switch v := v.(type) {
	case nil:
	case string:
		key = v
	default:
		raw, err := expr.Marshal(v)
		if err != nil {
			return "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "settings.concurrency.key", Err: err}
		}
		key = string(raw)
	}
	switch {
	case key == "":
		return "", stepwell.Invalid("use default(…) when a parameter may be missing", "settings.concurrency.key is empty")
	case len(key) > maxKey:
		return "", stepwell.Invalid("", "settings.concurrency.key has %d bytes, at most %d are allowed", len(key), maxKey)
	}
	return key, nil
}

func (c *Concurrency) ofPartition(params map[string]any) (string, error) {
	name, ok := c.partition.Key(params)
	if !ok {
		return "", stepwell.Invalid("give each of them a text, of at most 900 bytes in all", "settings.partition: %s name the partition", strings.Join(c.partition.By, ", "))
	}
	key := "partition/" + c.pipeline + "/" + name
	if len(key) > maxKey {
		return "", stepwell.Invalid("", "the name of the partition has %d bytes, at most %d are allowed", len(key), maxKey)
	}
	return key, nil
}
