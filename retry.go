package stepwell

import (
	"math"
	"time"
)

// Retry is a retry policy (budpipeline §3.2). MaxAttempts counts all tries, the first included.
// The zero value tries once.
type Retry struct {
	MaxAttempts int           `json:"max_attempts,omitempty"` // Defaults to 1
	Backoff     time.Duration `json:"backoff,omitempty"`      // before the second try. Defaults to 0
	Multiplier  float64       `json:"multiplier,omitempty"`   // Defaults to 2
	MaxBackoff  time.Duration `json:"max_backoff,omitempty"`  // Defaults to one hour
	Jitter      float64       `json:"jitter,omitempty"`       // share of the delay that varies, 0..1. Defaults to 0.1
}

// Delay is the pause after the given failed attempt (1 = the first), before jitter is subtracted:
// backoff × multiplier^(attempt−1), at most MaxBackoff. The fraction in [0,1) that varies it is
// given by the caller, so that pure code stays deterministic.
func (r Retry) Delay(attempt int, fraction float64) time.Duration {
	if attempt < 1 || r.Backoff <= 0 {
		return 0
	}
	mult, limit, jitter := r.Multiplier, r.MaxBackoff, r.Jitter
	if mult < 1 {
		mult = 2
	}
	if limit <= 0 {
		limit = time.Hour
	}
	if jitter <= 0 || jitter > 1 {
		jitter = 0.1
	}
	d := float64(r.Backoff) * math.Pow(mult, float64(attempt-1))
	d = min(d, float64(limit))
	return time.Duration(d * (1 - jitter*fraction))
}
