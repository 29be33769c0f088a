package sqlite

import (
	"encoding/json"

	"github.com/stepwell/stepwell/engine"
)

// stepExtra holds the columns that few steps have, as JSON in one nullable column (step.rare).
type stepExtra struct {
	Key     string          `json:"k,omitempty"`
	Action  string          `json:"a,omitempty"`
	Input   string          `json:"i,omitempty"` // JSON as text, as it came
	Failure *engine.Failure `json:"f,omitempty"`
	Wake    int64           `json:"w,omitempty"`
	// A waiting step's signal key, and the step's cost in millionths.
	External string `json:"x,omitempty"`
	Cost     int64  `json:"c,omitempty"`
	// The counts of a stream step whose outputs lack them.
	Counted *engine.Items `json:"n,omitempty"`
}

// encodeExtra is nil for a row that has none of it, which is nearly every one.
func encodeExtra(r *engine.StepRow) (any, error) {
	if r.Key == "" && r.Action == "" && r.Input == nil && r.Error == nil && r.Wake == 0 && r.External == "" && r.Cost == 0 && r.Counted == nil {
		return nil, nil
	}
	raw, err := json.Marshal(&stepExtra{Key: r.Key, Action: r.Action, Input: string(r.Input), Failure: r.Error, Wake: r.Wake,
		External: r.External, Cost: r.Cost, Counted: r.Counted})
	if err != nil {
		return nil, err
	}
	return string(raw), nil
}

func decodeExtra(raw []byte, r *engine.StepRow) error {
	if len(raw) == 0 {
		return nil
	}
	var x stepExtra
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	r.Key, r.Action, r.Error, r.Wake = x.Key, x.Action, x.Failure, x.Wake
	r.External, r.Cost, r.Counted = x.External, x.Cost, x.Counted
	if x.Input != "" {
		r.Input = []byte(x.Input)
	}
	return nil
}
