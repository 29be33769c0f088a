package outbound

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Hidden stands where a secret was.
const Hidden = "***"

const (
	minSecret  = 6   // shorter ones are hidden by name only: replacing "on" everywhere would garble texts
	maxSecrets = 200 // values that one request can have
)

var (
	secretWords = []string{"authorization", "auth", "cookie", "cookies", "token", "secret", "password", "passwd", "pwd", "passphrase",
		"key", "apikey", "credential", "credentials", "signature", "sig", "session", "sessionid", "jwt", "bearer"}
	harmlessWords = []string{"idempotency", "page", "next", "continuation", "cursor", "public", "sort", "partition", "object", "keyword"}
)

// SecretName reports whether a header, a query parameter or a member of that name is to be hidden: its
// words, divided by case and punctuation, say so. X-Api-Key and accessToken do, Idempotency-Key,
// next_token and max_tokens do not.
func SecretName(name string) bool {
	words := wordsOf(name)
	if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(harmlessWords, w) }) {
		return false
	}
	return slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains(secretWords, w) || strings.HasSuffix(w, "token") || strings.HasSuffix(w, "secret") || strings.HasSuffix(w, "password")
	})
}

func wordsOf(name string) []string {
	var words []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	lower := false
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) || unicode.IsUpper(r) && lower {
			end()
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			word.WriteRune(r)
		}
		lower = unicode.IsLower(r)
	}
	end()
	return words
}

// Redactor hides the secrets of one request wherever they surface: values of secret headers, of secret
// query parameters, and the user in the URL. It is not changed after it was made, but by Add.
type Redactor struct {
	values   []string
	replacer *strings.Replacer
}

// NewRedactor knows the secrets of the URL and the headers.
func NewRedactor(u *url.URL, h http.Header) *Redactor {
	r := &Redactor{}
	if password, ok := u.User.Password(); ok {
		r.collect(password)
		r.collect(base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password)))
	}
	for name, values := range u.Query() {
		if SecretName(name) {
			r.collect(values...)
		}
	}
	for name, values := range h {
		if !SecretName(name) {
			continue
		}
		for _, v := range values {
			r.header(v)
		}
	}
	r.build()
	return r
}

// header collects a secret header, and its parts: the credential behind a scheme, the password of a
// basic one, the values of cookies.
func (r *Redactor) header(v string) {
	r.collect(v)
	scheme, rest, found := strings.Cut(v, " ")
	if found {
		r.collect(rest)
	}
	if strings.EqualFold(scheme, "basic") {
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			if _, password, ok := strings.Cut(string(plain), ":"); ok {
				r.collect(password)
			}
		}
	}
	for part := range strings.SplitSeq(v, ";") {
		if _, value, ok := strings.Cut(part, "="); ok && strings.Contains(v, "=") {
			r.collect(strings.TrimSpace(value))
		}
	}
}

// Add makes the redactor hide more values.
func (r *Redactor) Add(values ...string) {
	r.collect(values...)
	r.build()
}

// collect remembers values and the forms in which they may come back.
func (r *Redactor) collect(values ...string) {
	for _, v := range values {
		quoted, err := json.Marshal(v)
		if err != nil {
			quoted = nil
		}
		for _, form := range []string{v, url.QueryEscape(v), url.PathEscape(v), strings.Trim(string(quoted), `"`)} {
			if len(form) >= minSecret && len(r.values) < maxSecrets && !slices.Contains(r.values, form) {
				r.values = append(r.values, form)
			}
		}
	}
}

func (r *Redactor) build() {
	slices.SortFunc(r.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(r.values))
	for _, v := range r.values {
		pairs = append(pairs, v, Hidden)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// Text hides the secrets in a text.
func (r *Redactor) Text(text string) string {
	if len(r.values) == 0 {
		return text
	}
	return r.replacer.Replace(text)
}

// Value hides the secrets in the texts of a JSON value, which is copied where it changes.
func (r *Redactor) Value(v any) any {
	if len(r.values) == 0 {
		return v
	}
	switch v := v.(type) {
	case string:
		return r.replacer.Replace(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = r.Value(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[r.Text(k)] = r.Value(e)
		}
		return out
	}
	return v
}

// URL is the URL for people: without user, fragment and the values of secret parameters.
func (r *Redactor) URL(u *url.URL) string {
	shown := *u
	shown.User, shown.Fragment, shown.RawFragment = nil, "", ""
	if shown.RawQuery != "" {
		parts := strings.Split(shown.RawQuery, "&")
		for i, part := range parts {
			name, _, _ := strings.Cut(part, "=")
			if plain, err := url.QueryUnescape(name); err != nil || SecretName(plain) {
				parts[i] = name + "=" + Hidden
			}
		}
		shown.RawQuery = strings.Join(parts, "&")
	}
	text := shown.String()
	if u.User != nil {
		text = strings.Replace(text, "://", "://"+Hidden+"@", 1)
	}
	return printable(r.Text(text))
}

// Header is a set of headers for people, by lower-case name, without secrets.
func (r *Redactor) Header(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		text := strings.Join(values, ", ")
		switch u, err := url.Parse(text); {
		case SecretName(name):
			text = Hidden
		case strings.HasSuffix(name, "Location") && err == nil:
			text = r.URL(u)
		}
		out[strings.ToLower(name)] = r.Text(text)
	}
	return out
}

// credentialOf names the credential of a request without telling it, "" for none.
func credentialOf(r *http.Request) string {
	credential := ""
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Auth-Token"} {
		if credential = r.Header.Get(name); credential != "" {
			break
		}
	}
	if credential == "" && r.URL.User != nil {
		credential = r.URL.User.String()
	}
	if credential == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:16])
}
