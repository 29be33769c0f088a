package app_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
)

func TestPrice(t *testing.T) {
	const unit = 1_000_000_000_000
	for _, c := range []struct {
		name    string
		price   app.Price
		seconds float64
		outputs string
		want    int64 // micro-units
	}{
		{"nothing", app.Price{}, 5, `{"usage":{"input_tokens":5}}`, 0},
		{"a call", app.Price{PerCall: unit / 100}, 5, ``, 10_000},
		{"time", app.Price{PerSecond: unit / 1000}, 2.5, `{}`, 2_500},
		{"tokens", app.Price{PerInputToken: 2_500_000, PerOutputToken: 10_000_000}, 1, `{"usage":{"input_tokens":1000,"output_tokens":10}}`, 2_600},
		{"tokens of an answer", app.Price{PerInputToken: 2_500_000, PerOutputToken: 10_000_000}, 1, `{"status":200,"body":{"usage":{"prompt_tokens":1000,"completion_tokens":10}}}`, 2_600},
		{"rounded up", app.Price{PerInputToken: 500_000}, 1, `{"usage":{"input_tokens":1}}`, 1},
		{"rounded down", app.Price{PerInputToken: 499_999}, 1, `{"usage":{"input_tokens":1}}`, 0},
		{"a text", app.Price{PerInputToken: unit}, 1, `"usage"`, 0},
		{"usage of another shape", app.Price{PerInputToken: unit}, 1, `{"usage":"much"}`, 0},
		{"a body that is text", app.Price{PerInputToken: unit}, 1, `{"body":"usage"}`, 0},
		{"less than nothing", app.Price{PerInputToken: unit}, -3, `{"usage":{"input_tokens":-5}}`, 0},
		{"endless", app.Price{PerSecond: unit}, math.Inf(1), `{}`, 0},
		{"beyond all bounds", app.Price{PerInputToken: math.MaxInt64}, 1, `{"usage":{"input_tokens":9000000000000000}}`, math.MaxInt64 / 1024},
	} {
		if got := c.price.Cost(1, c.seconds, app.UsageOf(json.RawMessage(c.outputs))); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestUsageOf(t *testing.T) {
	for outputs, want := range map[string]stepwell.Usage{
		`{"usage":{"input_tokens":5,"output_tokens":2}}`:                                  {InputTokens: 5, OutputTokens: 2},
		`{"text":"x","usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}`: {InputTokens: 7, OutputTokens: 1},
		`{"status":200,"body":{"usage":{"input_tokens":3,"seconds":1.25}}}`:               {InputTokens: 3, AudioMillis: 1250},
		`{"text":"hello","duration":12.3456}`:                                             {AudioMillis: 12346},
		`{"body":{"text":"hello","duration":2}}`:                                          {AudioMillis: 2000},
		`{"usage":{"seconds":3},"text":"hello","duration":2}`:                             {AudioMillis: 3000},
		`{"usage":"much","text":"hello","duration":2}`:                                    {AudioMillis: 2000},
		`{"duration":7}`:   {}, // of a video
		`{"usage":"much"}`: {},
		`{"usage":{"input_tokens":-5,"seconds":-1}}`:                         {},
		`{"usage":{"seconds":1e300}}`:                                        {AudioMillis: 1_000_000_000_000},
		`{"usage":{"input_tokens":"5"},"body":{"usage":{"input_tokens":6}}}`: {},
		`{"body":"usage"}`:                                                   {},
		`{"items":[{"usage":{"input_tokens":5}}]}`:                           {},
		`{"text":"hello","duration":"long"}`:                                 {},
		`"usage"`:                                                            {}, `{"usage"`: {}, ``: {},
	} {
		if got := app.UsageOf(json.RawMessage(outputs)); got != want {
			t.Errorf("%s: got %+v, want %+v", outputs, got, want)
		}
	}
}
