package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Price is the cost of an action, in units of 1e-12 of the user's currency, so that a token's millionths stay exact.
type Price struct {
	PerCall, PerSecond, PerInputToken, PerOutputToken int64
}

// Cost is the price of so many calls that took so many seconds and used so much of models, in micro-units (1e-6), rounded to the
// nearest.
func (p Price) Cost(calls int, seconds float64, u stepwell.Usage) int64 {
	sum := new(big.Int).Mul(big.NewInt(p.PerCall), big.NewInt(int64(calls)))
	if p.PerSecond > 0 && seconds > 0 && seconds < 1e9 {
		micros := big.NewInt(int64(math.Round(seconds * 1e6)))
		part := new(big.Int).Mul(big.NewInt(p.PerSecond), micros)
		sum.Add(sum, part.Div(part, big.NewInt(1e6)))
	}
	sum.Add(sum, new(big.Int).Mul(big.NewInt(p.PerInputToken), big.NewInt(u.InputTokens)))
	sum.Add(sum, new(big.Int).Mul(big.NewInt(p.PerOutputToken), big.NewInt(u.OutputTokens)))
	sum.Add(sum, big.NewInt(500_000))
	sum.Div(sum, big.NewInt(1e6))
	if !sum.IsInt64() {
		return math.MaxInt64 / 1024 // room to add some up
	}
	return sum.Int64()
}

// reported is what services say of their work, in the outputs or in the answer of a call over HTTP.
type reported struct {
	Usage    json.RawMessage `json:"usage"`
	Body     json.RawMessage `json:"body"`
	Duration json.RawMessage `json:"duration"`
	Text     json.RawMessage `json:"text"`
}

// used is the usage in the shapes of well-known services.
type used struct {
	Input      int64   `json:"input_tokens"`
	Output     int64   `json:"output_tokens"`
	Prompt     int64   `json:"prompt_tokens"`
	Completion int64   `json:"completion_tokens"`
	Seconds    float64 `json:"seconds"`
}

// UsageOf reads what models have read and written from outputs: tokens and seconds of audio from usage, or the seconds from the duration
// of a transcript, which has a text; both may also be in body, the answer of a call over HTTP. Outputs without these words are not
// decoded, and those of another shape have used nothing.
func UsageOf(outputs json.RawMessage) stepwell.Usage {
	if !bytes.Contains(outputs, []byte(`"usage"`)) && !bytes.Contains(outputs, []byte(`"duration"`)) {
		return stepwell.Usage{}
	}
	var r reported
	if json.Unmarshal(outputs, &r) != nil {
		return stepwell.Usage{}
	}
	if len(r.Usage) == 0 && len(r.Body) > 0 && r.Body[0] == '{' {
		body := r.Body
		r = reported{}
		if json.Unmarshal(body, &r) != nil {
			return stepwell.Usage{}
		}
	}
	var u used
	if len(r.Usage) > 0 && json.Unmarshal(r.Usage, &u) != nil {
		u = used{}
	}
	if u.Seconds == 0 && len(r.Text) > 0 && len(r.Duration) > 0 && json.Unmarshal(r.Duration, &u.Seconds) != nil {
		u.Seconds = 0
	}
	return stepwell.Usage{InputTokens: max(u.Input, u.Prompt, 0), OutputTokens: max(u.Output, u.Completion, 0), AudioMillis: int64(math.Round(min(max(u.Seconds, 0), maxAudio) * 1000))}
}

// maxAudio is the greatest number of seconds that one attempt can report.
const maxAudio = 1e9

// pricing returns the function by which workers and conductor learn what calls have used and cost. An action has its price
// under all of its names. A price of an unknown action is logged, as it would have no effect.
func pricing(given map[string]Price, actions *action.Registry, now func() time.Time, log *slog.Logger) func(action string, calls int, began time.Time, outputs json.RawMessage) stepwell.Spending {
	prices := map[string]Price{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		s, ok := actions.Spec(name)
		if !ok {
			log.Warn("there is a price for an action that there is not", "action", name)
			continue
		}
		for _, same := range append([]string{s.Name}, s.Aliases...) {
			prices[same] = given[name]
		}
	}
	return func(action string, calls int, began time.Time, outputs json.RawMessage) stepwell.Spending {
		s := stepwell.Spending{Usage: UsageOf(outputs)}
		if p, ok := prices[action]; ok {
			seconds := 0.0
			if !began.IsZero() {
				seconds = now().Sub(began).Seconds()
			}
			s.Cost = p.Cost(calls, seconds, s.Usage)
		}
		return s
	}
}
