package schema

import (
	"errors"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// textFormats are the text checks of ownFormats.
var textFormats = map[*jsonschema.Format]func(string) error{}

// ownFormats replace formats of the library that refuse valid texts, or accept more than other validators.
var ownFormats = []*jsonschema.Format{
	onText("uri-template", checkTemplate),
	onText("uri", func(s string) error { return checkURI(s, true) }),
	onText("uri-reference", func(s string) error { return checkURI(s, false) }),
	onText("iri", func(s string) error { return checkReference(s, true) }),
	onText("iri-reference", func(s string) error { return checkReference(s, false) }),
}

func onText(name string, check func(string) error) *jsonschema.Format {
	f := &jsonschema.Format{Name: name, Validate: func(v any) error {
		if s, ok := v.(string); ok {
			return check(s)
		}
		return nil
	}}
	textFormats[f] = check
	return f
}

func checkURI(s string, absolute bool) error {
	if plainURL(s) {
		return nil
	}
	return errors.Join(checkASCII(s), checkReference(s, absolute))
}

var (
	errNotURL    = errors.New("is not a URL")
	errRelative  = errors.New("is not an absolute URL")
	errCharacter = errors.New("has a character that a URI does not allow")
	errTemplate  = errors.New("is not a URI template")
)

// checkReference checks a URL. Blanks in a path and templates ("https://{s}.example.com/{z}/{x}/{y}.png", as in
// web map links) are tolerated, as other STAC validators do.
func checkReference(s string, absolute bool) error {
	if plainURL(s) {
		return nil
	}
	if strings.ContainsRune(s, '\\') {
		return errNotURL
	}
	if strings.ContainsRune(s, '{') { // only the host minds braces
		s = braces.Replace(s)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || !hostAllowed(u):
		return errNotURL
	case absolute && !u.IsAbs():
		return errRelative
	}
	return nil
}

// plainURL recognises nearly all links without parsing them: a scheme of letters and digits, a host without port, a
// path and a query of harmless characters.
func plainURL(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || len(scheme) == 0 || scheme[0] < 'a' || scheme[0] > 'z' {
		return false
	}
	for i := range len(scheme) {
		if c := scheme[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	host := true
	for i := range len(rest) {
		switch c := rest[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
		case c == '/':
			host = false
		case !host && (c == '_' || c == '~' || c == '+' || c == '=' || c == '&' || c == '?' || c == ',' || c == ':'):
		default:
			return false
		}
	}
	return len(rest) > 0 && rest[0] != '/'
}

var braces = strings.NewReplacer("{", "", "}", "")

// hostAllowed refuses an IPv6 address without brackets.
func hostAllowed(u *url.URL) bool {
	host := u.Hostname()
	return !strings.Contains(host, ":") || strings.HasPrefix(u.Host, "[")
}

// checkASCII allows the characters of RFC 3986.
func checkASCII(s string) error {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return errCharacter
		}
	}
	return nil
}

// checkTemplate checks a template of RFC 6570: literals and expressions, up to level 4.
func checkTemplate(s string) error {
	for s != "" {
		at := strings.IndexAny(s, "{}")
		literal := s
		if at >= 0 {
			literal = s[:at]
		}
		if strings.ContainsAny(literal, "\"'<>\\^`|\x7f") || strings.ContainsFunc(literal, func(r rune) bool { return r <= ' ' }) || !percentsWhole(literal) {
			return errTemplate
		}
		if at < 0 {
			return nil
		}
		end := strings.IndexByte(s, '}')
		if s[at] == '}' || end < 0 || !expressionAllowed(s[at+1:end]) {
			return errTemplate
		}
		s = s[end+1:]
	}
	return nil
}

func expressionAllowed(s string) bool {
	if s != "" && strings.IndexByte("+#./;?&=,!@|", s[0]) >= 0 {
		s = s[1:]
	}
	for spec := range strings.SplitSeq(s, ",") {
		name, length, cut := strings.Cut(spec, ":")
		if cut {
			if length == "" || len(length) > 4 || length[0] == '0' || strings.Trim(length, "0123456789") != "" {
				return false
			}
		} else {
			name = strings.TrimSuffix(name, "*")
		}
		for part := range strings.SplitSeq(name, ".") {
			if part == "" || !percentsWhole(part) || strings.ContainsFunc(part, notInName) {
				return false
			}
		}
	}
	return true
}

func notInName(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' && r != '%'
}

// percentsWhole says whether two hexadecimal digits follow each percent sign.
func percentsWhole(s string) bool {
	for {
		at := strings.IndexByte(s, '%')
		if at < 0 {
			return true
		}
		if len(s) < at+3 || strings.Trim(s[at+1:at+3], "0123456789abcdefABCDEF") != "" {
			return false
		}
		s = s[at+3:]
	}
}
