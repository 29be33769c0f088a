package app

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/stepwell/stepwell/action"
)

// Price is the cost of an action, in units of 1e-12 of the user's currency, so that a token's millionths stay exact.
type Price struct {
	PerCall, PerSecond, PerInputToken, PerOutputToken int64
}

// usage is where services that count tokens say how many: in the outputs, or in the answer of a call over HTTP.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// Cost is the price of so many calls that took so many seconds and gave the outputs, in micro-units (1e-6), rounded to
// the nearest. Tokens are read from `usage`, or `body.usage`, as {input_tokens, output_tokens} or {prompt_tokens,
// completion_tokens}; without them they cost nothing.
func (p Price) Cost(calls int, seconds float64, outputs json.RawMessage) int64 {
	sum := new(big.Int).Mul(big.NewInt(p.PerCall), big.NewInt(int64(calls)))
	if p.PerSecond > 0 && seconds > 0 && seconds < 1e9 {
		micros := big.NewInt(int64(math.Round(seconds * 1e6)))
		part := new(big.Int).Mul(big.NewInt(p.PerSecond), micros)
		sum.Add(sum, part.Div(part, big.NewInt(1e6)))
	}
	if p.PerInputToken > 0 || p.PerOutputToken > 0 {
		in, out := tokens(outputs)
		sum.Add(sum, new(big.Int).Mul(big.NewInt(p.PerInputToken), big.NewInt(in)))
		sum.Add(sum, new(big.Int).Mul(big.NewInt(p.PerOutputToken), big.NewInt(out)))
	}
	sum.Add(sum, big.NewInt(500_000))
	sum.Div(sum, big.NewInt(1e6))
	if !sum.IsInt64() {
		return math.MaxInt64 / 1024 // room to add some up
	}
	return sum.Int64()
}

func tokens(outputs json.RawMessage) (in, out int64) {
	var doc struct {
		Usage json.RawMessage `json:"usage"`
		Body  json.RawMessage `json:"body"`
	}
	if json.Unmarshal(outputs, &doc) != nil { // outputs of another shape count no tokens
		return 0, 0
	}
	if len(doc.Usage) == 0 && len(doc.Body) > 0 {
		body := doc.Body
		doc.Body = nil
		if json.Unmarshal(body, &doc) != nil {
			return 0, 0
		}
	}
	var u usage
	if len(doc.Usage) == 0 || json.Unmarshal(doc.Usage, &u) != nil {
		return 0, 0
	}
	return max(u.Input, u.Prompt, 0), max(u.Output, u.Completion, 0)
}

// pricing returns the price function of workers and conductor; nil when there are no prices. An action has its price
// under all of its names. A price of an unknown action is logged, as it would have no effect.
func pricing(given map[string]Price, actions *action.Registry, log *slog.Logger) func(action string, calls int, seconds float64, outputs json.RawMessage) int64 {
	if len(given) == 0 {
		return nil
	}
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
	return func(action string, calls int, seconds float64, outputs json.RawMessage) int64 {
		p, ok := prices[action]
		if !ok {
			return 0
		}
		return p.Cost(calls, seconds, outputs)
	}
}
