package outbound

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// maxAfter is the longest that a server can make a step wait at once.
const maxAfter = time.Hour

// RetryAfter reads the header Retry-After in both of its forms (RFC 9110 §10.2.3): seconds, or a date,
// which is reckoned from the server's own Date if there is one. It is never negative, at most a year, and
// false if the header is missing or means nothing.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	const year = 365 * 24 * time.Hour
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) {
		return time.Duration(min(max(seconds, 0), year.Seconds()) * float64(time.Second)), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), year), true
}

// Verdict is the consequence of a failure for the step.
type Verdict string

// The verdicts.
const (
	Permanent Verdict = "permanent" // no other attempt
	Again     Verdict = "again"     // another attempt, if the step's policy has one
	Once      Verdict = "once"      // another attempt, but only one for this status
	Deferred  Verdict = "deferred"  // put back for a while without using up an attempt
)

// Policy says which failures are worth another attempt. The zero value is the table of stac-and-media §2
// and §7:
//
//	408 425 429 502 503 520–529, dns connect timeout reset truncated protocol result   again
//	500 504                                                                            again, once
//	429 503 with Retry-After, busy                                                     deferred
//	any other status, invalid blocked tls limit content                                permanent
type Policy struct {
	RetryOn []string // statuses ("409", "5xx") and kinds that are tried again all the same
	FailOn  []string // statuses and kinds that are not; it wins over RetryOn
	// MaxDefer is how long after its first deferral a step is still put back without using up an attempt.
	// Defaults to 24 h.
	MaxDefer time.Duration
}

// Check validates the rules.
func (p Policy) Check() error {
	for _, rule := range slices.Concat(p.RetryOn, p.FailOn) {
		class, isClass := strings.CutSuffix(rule, "xx")
		status, err := strconv.Atoi(rule)
		if slices.Contains(Kinds(), Kind(rule)) || err == nil && status >= 100 && status <= 599 ||
			isClass && len(class) == 1 && class[0] >= '1' && class[0] <= '5' {
			continue
		}
		return invalid(fmt.Sprintf("%q is neither a status nor a kind of failure", rule), fmt.Sprintf("write 409, 5xx, or one of %v", Kinds()))
	}
	return nil
}

// Judge returns the verdict on the failure.
func (p Policy) Judge(f *Failure) Verdict {
	names := []string{string(f.Kind)}
	if f.Kind == KindStatus {
		names = []string{strconv.Itoa(f.Status), strconv.Itoa(f.Status/100) + "xx"}
	}
	named := func(rules []string) bool {
		return slices.ContainsFunc(rules, func(r string) bool { return slices.Contains(names, r) })
	}
	switch {
	case named(p.FailOn):
		return Permanent
	case f.Told && (f.Kind == KindBusy || f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable):
		return Deferred
	case named(p.RetryOn):
		return Again
	}
	switch f.Kind {
	case KindDNS, KindConnect, KindTimeout, KindReset, KindTruncated, KindProtocol, KindResult, KindBusy:
		return Again
	case KindStatus:
		return judgeStatus(f.Status)
	}
	return Permanent
}

func judgeStatus(status int) Verdict {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return Again
	case http.StatusInternalServerError, http.StatusGatewayTimeout:
		return Once
	}
	if status >= 520 && status <= 529 { // gateways add these, overloaded among them
		return Again
	}
	return Permanent
}

// Records shared by all attempts of a step; the first value of each stays.
const (
	recordDeferred = "outbound.deferred"
	recordOnce     = "outbound.once."
)

// Steer is the error by which a handler ends an attempt after the failure: action.Fail, action.Retry or
// action.Defer, as the policy says. It uses the step's records to know whether a status was there before
// and since when the step has been put back.
func Steer(ctx context.Context, call *action.Call, f *Failure, p Policy) error {
	after := min(f.After, maxAfter)
	switch p.Judge(f) {
	case Permanent:
		return action.Fail(f)
	case Once:
		key := recordOnce + strconv.Itoa(f.Status)
		_, before, err := call.Host.Recall(ctx, key)
		if err != nil {
			return err
		}
		if before {
			return action.Fail(f)
		}
		if err := call.Host.Record(ctx, key, json.RawMessage("true")); err != nil {
			return err
		}
	case Deferred:
		ok, err := mayDefer(ctx, call, p)
		if err != nil {
			return err
		}
		if ok {
			return action.Defer(max(after, time.Second), f)
		}
	}
	return action.Retry(after, f)
}

// mayDefer reports whether the time for deferrals is not over yet; it begins with the first.
func mayDefer(ctx context.Context, call *action.Call, p Policy) (bool, error) {
	if p.MaxDefer <= 0 {
		p.MaxDefer = 24 * time.Hour
	}
	now := time.Now()
	raw, ok, err := call.Host.Recall(ctx, recordDeferred)
	if err != nil {
		return false, err
	}
	if !ok {
		raw, err = json.Marshal(now)
		if err != nil {
			return false, &stepwell.Error{Code: stepwell.CodeInternal, Message: "time of the deferral", Err: err}
		}
		return true, call.Host.Record(ctx, recordDeferred, raw)
	}
	var first time.Time
	if err := json.Unmarshal(raw, &first); err != nil {
		return false, &stepwell.Error{Code: stepwell.CodeInternal, Message: "time of the first deferral", Err: err}
	}
	return now.Sub(first) < p.MaxDefer, nil
}

// HeaderKey is an idempotency key fit for a header: one that is long, or has characters beyond visible ASCII, is
// replaced by its SHA-256.
func HeaderKey(key string) string {
	plain := !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
	if plain && len(key) <= 200 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
