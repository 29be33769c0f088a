package schema

import (
	"maps"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	matchTime   = 200 * time.Millisecond // of one pattern on one text
	maxPattern  = 4096                   // bytes of a pattern
	cachedTexts = 512                    // results kept per pattern
	cachedText  = 64                     // bytes of a text whose result is kept
)

// pattern is a regular expression of ECMA-262. Most matches are against names of properties, which are the same in
// every item: the answers are cached.
type pattern struct {
	source string
	match  func(string) (bool, error)
	known  atomic.Pointer[map[string]bool] // nil: match is as fast
}

// tooSlow is recovered by Schema.Validate: a pattern that ran into matchTime.
type tooSlow string

// compilePattern is the jsonschema.RegexpEngine.
func compilePattern(source string) (jsonschema.Regexp, error) {
	p := &pattern{source: source}
	if prefix, ok := notPrefixed(source); ok {
		p.match = func(s string) (bool, error) { return !strings.HasPrefix(s, prefix), nil }
		return p, nil
	}
	if len(source) > maxPattern {
		return nil, unavailable("", "a pattern is longer than 4096 bytes", nil)
	}
	if portable.MatchString(source) {
		if re, err := regexp.Compile(source); err == nil {
			p.match = func(s string) (bool, error) { return re.MatchString(s), nil }
			return p, nil
		}
	}
	re, err := regexp2.Compile(source, regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTime
	p.match = re.MatchString
	p.known.Store(&map[string]bool{})
	return p, nil
}

var (
	notPrefix = regexp.MustCompile(`^\^\(\?!([A-Za-z0-9_:-]+)\)$`)
	// portable are expressions that mean the same in RE2, which is faster and never takes long: no
	// look-around and back references, no class that RE2 sees differently (\s and the dot).
	portable = regexp.MustCompile(`^(\\[dDwW.+*?()|{}^$/-]|[A-Za-z0-9_:,/=@~ +*?(|)^$-]|\{(0|[1-9][0-9]?)(,([1-9][0-9]?)?)?\}|\[\^?([A-Za-z0-9_:,/=@~ .+-]|\\[dw.+-])+\])*$`)
)

// notPrefixed recognises "^(?!eo:)", the pattern of nearly every extension schema.
func notPrefixed(source string) (prefix string, ok bool) {
	m := notPrefix.FindStringSubmatch(source)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// String is the expression.
func (p *pattern) String() string { return p.source }

// MatchString reports whether the expression matches somewhere in s.
func (p *pattern) MatchString(s string) bool {
	known := p.known.Load()
	if known != nil {
		if yes, ok := (*known)[s]; ok {
			return yes
		}
	}
	yes, err := p.match(s)
	if err != nil {
		panic(tooSlow(p.source))
	}
	if known != nil && len(s) <= cachedText && len(*known) < cachedTexts {
		more := maps.Clone(*known)
		more[strings.Clone(s)] = yes
		p.known.CompareAndSwap(known, &more) // another goroutine was faster: next time
	}
	return yes
}
