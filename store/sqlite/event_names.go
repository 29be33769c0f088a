package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// name gives the events their steps' keys.
func (t *teller) name(ctx context.Context, s *Store) error {
	ids, err := s.stepIDs(ctx, t.execution)
	if err != nil {
		return err
	}
	var rest []int32
	for i := range t.events {
		if idx := t.events[i].Step; int(idx) >= len(ids) {
			rest = append(rest, idx)
		}
	}
	keys := map[int32]string{}
	if len(rest) > 0 {
		slices.Sort(rest)
		list, err := json.Marshal(slices.Compact(rest))
		if err != nil {
			return err
		}
		if err := s.each(ctx, func(rows *sql.Rows) error {
			var idx int32
			var key sql.NullString
			err := rows.Scan(&idx, &key)
			keys[idx] = key.String
			return err
		}, s.sql["rare_keys"], t.execution, string(list)); err != nil {
			return err
		}
	}
	for i := range t.events {
		switch e := &t.events[i]; {
		case e.Step < 0:
		case int(e.Step) < len(ids):
			e.StepKey = ids[e.Step]
		case keys[e.Step] != "":
			e.StepKey = keys[e.Step]
		default:
			e.StepKey = fmt.Sprintf("#%d", e.Step)
		}
	}
	return nil
}

// What is kept of the ids of definitions: so many definitions, and so many ids of all of them.
const (
	maxNamed    = 256
	maxNamedIDs = 500_000
)

// names are the ids of the steps of the definitions that were read: whoever follows logs asks for the same
// again and again.
type names struct {
	mu    sync.Mutex
	ids   map[string][]string
	total int
}

func (n *names) lookup(hash string) ([]string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids, ok := n.ids[hash]
	return ids, ok
}

// keep makes room by forgetting any others.
func (n *names) keep(hash string, ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil {
		n.ids = map[string][]string{}
	}
	for other, list := range n.ids {
		if len(n.ids) < maxNamed && n.total+len(ids) <= maxNamedIDs {
			break
		}
		delete(n.ids, other)
		n.total -= len(list)
	}
	if _, twice := n.ids[hash]; !twice {
		n.ids[hash], n.total = ids, n.total+len(ids)
	}
}

// stepIDs are the ids of the top level of an execution's definition, nil if there is no such execution.
func (s *Store) stepIDs(ctx context.Context, execution int64) ([]string, error) {
	var hash string
	err := s.read.QueryRowContext(ctx, s.sql["execution_definition"], execution).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if ids, ok := s.names.lookup(hash); ok {
		return ids, nil
	}
	var body []byte
	err = s.read.QueryRowContext(ctx, s.sql["definition_body"], []byte(hash)).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // it may be stored later
	}
	if err != nil {
		return nil, err
	}
	var definition struct {
		Steps []struct {
			ID string `json:"id"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return nil, err
	}
	ids := make([]string, len(definition.Steps))
	for i := range ids {
		ids[i] = definition.Steps[i].ID
	}
	s.names.keep(hash, ids)
	return ids, nil
}
