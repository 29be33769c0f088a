package api_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stepwell/stepwell/api"
)

func TestMoney(t *testing.T) {
	for m, want := range map[api.Money]string{0: `"0"`, 1: `"0.000001"`, 12_500: `"0.0125"`, 1_000_000: `"1"`, 10_000_000: `"10"`, 123_456_789: `"123.456789"`, -1: `"-0.000001"`, -1_500_000: `"-1.5"`,
		9_007_199_254_740_993: `"9007199254.740993"`, math.MaxInt64: `"9223372036854.775807"`, math.MinInt64: `"-9223372036854.775808"`} {
		raw, err := json.Marshal(m)
		if err != nil || string(raw) != want {
			t.Errorf("%d is written as %s, %v, want %s", int64(m), raw, err, want)
		}
		var back api.Money
		if err := json.Unmarshal(raw, &back); err != nil || back != m {
			t.Errorf("%s is read as %d, %v", raw, int64(back), err)
		}
	}
	for _, text := range []string{`""`, `"."`, `".5"`, `"1.0000001"`, `"1e3"`, `"1,5"`, `"99999999999999"`, `"1.-5"`, `"a"`} {
		var m api.Money
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s was read as %d", text, int64(m))
		}
	}
}
