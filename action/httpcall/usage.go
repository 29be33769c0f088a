package httpcall

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// price is the price of a model: per million tokens, per second of audio, per request.
type price struct {
	Input   float64  `json:"input"`
	Cached  *float64 `json:"cached"` // Defaults to Input
	Output  float64  `json:"output"`
	Second  float64  `json:"second"`
	Request float64  `json:"request"`
}

// usage is the work reported by services.
type usage struct {
	model                            string
	input, output, cached, reasoning float64
	seconds                          float64
	tokens, audio                    bool // whether there was anything
}

// requestIDs are the headers by which services name a request.
var requestIDs = []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Ms-Request-Id", "X-Correlation-Id", "Cf-Ray"}

// measure makes the figures of the exchange.
func (a *answer) measure(call *action.Call, m outbound.Metrics, prices map[string]price) {
	a.metrics = map[string]any{"attempt": call.Attempt, "bytes_sent": m.Sent, "bytes_received": m.Received,
		"first_byte_ms": millis(m.FirstByte), "duration_ms": millis(m.Duration), "request_id": ""}
	for _, name := range requestIDs {
		if id := a.header.Get(name); id != "" {
			a.metrics["request_id"] = a.redact.Text(id[:min(len(id), 200)])
			break
		}
	}
	u := usageOf(a.body)
	if u.model != "" {
		a.metrics["model"] = a.redact.Text(u.model)
	}
	if u.tokens {
		a.tokens = int(min(max(u.input+u.output, 0), math.MaxInt32))
		a.metrics["tokens"] = map[string]any{"input": int64(u.input), "output": int64(u.output), "cached": int64(u.cached), "reasoning": int64(u.reasoning)}
	}
	if u.audio {
		a.metrics["audio_seconds"] = u.seconds
	}
	if p, ok := priceOf(prices, u.model); ok {
		a.metrics["cost"] = p.cost(u)
	}
}

func millis(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }

// attrs are the figures for the log, by name.
func (a *answer) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.Int("status", a.status)}
	for _, name := range slices.Sorted(maps.Keys(a.metrics)) {
		attrs = append(attrs, slog.Any(name, a.metrics[name]))
	}
	return attrs
}

// usageOf finds the usage in a body, in the shapes of the well-known services; of a list of events in the
// last that has one.
func usageOf(body any) usage {
	switch v := body.(type) {
	case []any:
		model := ""
		for i := len(v) - 1; i >= 0 && i >= len(v)-100; i-- {
			m, _ := v[i].(map[string]any)
			if data, ok := m["data"].(map[string]any); ok {
				m = data
			}
			u := usageOf(m)
			if model == "" {
				model = u.model
			}
			if u.tokens || u.audio {
				u.model = or(u.model, model)
				return u
			}
		}
		return usage{model: model}
	case map[string]any:
		return usageOfObject(v)
	}
	return usage{}
}

func usageOfObject(body map[string]any) usage {
	var u usage
	u.model, _ = body["model"].(string)
	if u.model == "" {
		u.model, _ = body["modelVersion"].(string)
	}
	u.model = u.model[:min(len(u.model), 200)]
	members, ok := body["usage"].(map[string]any)
	if !ok {
		members, _ = body["usageMetadata"].(map[string]any)
	}
	if inner, ok := body["response"].(map[string]any); ok && members == nil { // the last event of a stream
		return usageOfObject(inner)
	}
	take := func(into *float64, seen *bool, paths ...string) {
		for _, path := range paths {
			if f, ok := figure(members, path); ok {
				*into, *seen = f, true
				return
			}
		}
	}
	var detail bool
	take(&u.input, &u.tokens, "prompt_tokens", "input_tokens", "promptTokenCount")
	take(&u.output, &u.tokens, "completion_tokens", "output_tokens", "candidatesTokenCount")
	take(&u.cached, &detail, "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount")
	take(&u.reasoning, &detail, "completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens", "thoughtsTokenCount")
	take(&u.seconds, &u.audio, "seconds")
	if f, ok := figure(body, "duration"); ok && !u.audio {
		u.seconds, u.audio = f, true
	}
	return u
}

// figure is a number that cannot be absurd.
func figure(members map[string]any, path string) (float64, bool) {
	name, rest, deeper := strings.Cut(path, ".")
	if deeper {
		inner, ok := members[name].(map[string]any)
		if !ok {
			return 0, false
		}
		return figure(inner, rest)
	}
	var f float64
	switch v := members[name].(type) {
	case int64:
		f = float64(v)
	case float64:
		f = v
	case json.Number:
		f, _ = v.Float64() //nolint:errcheck // too large is refused below
	default:
		return 0, false
	}
	return f, f >= 0 && f < 1e15
}

// priceOf finds the price of a model: its own, that of the longest beginning of its name, or "*".
func priceOf(prices map[string]price, model string) (price, bool) {
	best, found := "", false
	for name := range prices {
		if name != "*" && strings.HasPrefix(model, name) && (!found || len(name) > len(best)) {
			best, found = name, true
		}
	}
	if !found {
		best = "*"
	}
	p, ok := prices[best]
	return p, ok
}

// cost is in the currency of the prices, to nine digits.
func (p price) cost(u usage) float64 {
	cached := p.Input
	if p.Cached != nil {
		cached = *p.Cached
	}
	fresh := max(u.input-u.cached, 0)
	sum := (fresh*p.Input+u.cached*cached+u.output*p.Output)/1e6 + u.seconds*p.Second + p.Request
	return math.Round(sum*1e9) / 1e9
}
