package secret

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// A sealed token stands in a text for a value: tokenHead, base64, tokenTail. JSON writes it as it is.
const (
	tokenHead = "\u2983sealed:"
	tokenTail = "\u2984"
	tokenWhat = "sealed value"
)

// Kinds of contents of a token.
const (
	tokenText = 0 // a piece of a text
	tokenJSON = 1 // the text of another JSON value than a string
)

// Mask replaces sealed tokens by ***. It works on JSON and on any other text, needs no key, and returns the same slice
// when there is no token: for shown outputs, parameters and states.
func Mask(text []byte) []byte {
	if !bytes.Contains(text, []byte(tokenHead)) {
		return text
	}
	return []byte(MaskText(string(text)))
}

// MaskText is Mask for a string.
func MaskText(text string) string {
	return eachToken(text, func(string) (string, error) { return Hidden, nil }, nil)
}

// Sealed reports whether a text holds a sealed token.
func Sealed(text []byte) bool { return bytes.Contains(text, []byte(tokenHead)) }

// eachToken replaces the tokens of a text; the first error is left in err and ends it.
func eachToken(text string, with func(body string) (string, error), err *error) string {
	if !strings.Contains(text, tokenHead) { // almost all: as it is, without a copy
		return text
	}
	var b strings.Builder
	for {
		at := strings.Index(text, tokenHead)
		if at < 0 {
			break
		}
		body := text[at+len(tokenHead):]
		n := tokenLength(body)
		if n < 0 { // the beginning of one only
			b.WriteString(text[:at+len(tokenHead)])
			text = body
			continue
		}
		fresh, failed := with(body[:n])
		if failed != nil {
			*err = failed
			return ""
		}
		b.WriteString(text[:at])
		b.WriteString(fresh)
		text = body[n+len(tokenTail):]
	}
	b.WriteString(text)
	return b.String()
}

func tokenLength(body string) int {
	n := 0
	for n < len(body) && base64Char(body[n]) {
		n++
	}
	if !strings.HasPrefix(body[n:], tokenTail) {
		return -1
	}
	return n
}

// token seals a value. The same value gives the same token, so that two of them can be compared.
func (r *Keyring) token(kind byte, value string) (string, error) {
	keys, err := r.ready()
	if err != nil {
		return "", err
	}
	k := &keys[0]
	plain := append([]byte{kind}, value...)
	mac := hmac.New(sha256.New, k.nonce)
	mac.Write(plain)
	nonce := mac.Sum(nil)[:nonceSize]
	out := append([]byte{envelopeVersion}, k.id[:]...)
	out = append(out, nonce...)
	out = k.token.Seal(out, nonce, plain, []byte(tokenWhat))
	return tokenHead + base64.RawURLEncoding.EncodeToString(out) + tokenTail, nil
}

// untoken opens the body of a token.
func (r *Keyring) untoken(body string) (kind byte, value string, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(body)
	head := 1 + idSize
	if err != nil || len(sealed) < head+nonceSize+tagSize+1 || sealed[0] != envelopeVersion {
		return 0, "", damaged("a sealed value")
	}
	k, err := r.find(sealed[1:head])
	if err != nil {
		return 0, "", err
	}
	if k == nil {
		return 0, "", wrongKey("a sealed value")
	}
	plain, err := k.token.Open(nil, sealed[head:head+nonceSize], sealed[head+nonceSize:], []byte(tokenWhat))
	if err != nil {
		return 0, "", damaged("a sealed value")
	}
	return plain[0], string(plain[1:]), nil
}

// Sealer puts sealed tokens in the place of known values, and the values back. It may be used by any goroutine.
type Sealer struct {
	keys   *Keyring
	redact *Redactor
}

// NewSealer makes one.
func NewSealer(k *Keyring, r *Redactor) *Sealer { return &Sealer{keys: k, redact: r} }

// SealJSON seals the known secrets in JSON text, which stays JSON. Text that looks like a token is sealed as well, as
// handlers never see tokens: it comes back unchanged. Without a readable master key secrets become *** for good.
func (s *Sealer) SealJSON(execution string, raw []byte) []byte {
	foreign := Sealed(raw) || bytes.Contains(raw, []byte(`\u2983`))
	if !foreign && !s.redact.Active(execution) {
		return raw
	}
	return rewrite(raw, func(text string) (string, bool) {
		spans := s.redact.find(execution, text)
		if strings.Contains(text, tokenHead) {
			spans = merge(text, append(spans, heads(text)...))
		}
		if len(spans) == 0 {
			return text, false
		}
		return quote(splice(text, spans, func(v string) string { return s.token(tokenText, v) })), true
	}, func(number string) (string, bool) {
		if !s.redact.Knows(execution, number) {
			return "", false
		}
		return quote(s.token(tokenJSON, number)), true
	})
}

// token is a sealed value, or *** when there is no key.
func (s *Sealer) token(kind byte, value string) string {
	token, err := s.keys.token(kind, value)
	if err != nil {
		return Hidden
	}
	return token
}

// heads is where texts begin that look like tokens.
func heads(text string) (out []span) {
	for from := 0; ; {
		at := strings.Index(text[from:], tokenHead)
		if at < 0 {
			return out
		}
		from += at + len(tokenHead)
		out = append(out, span{from - len(tokenHead), from})
	}
}

// SealValue seals the whole value of a secret parameter, given as JSON of any type. The result is JSON as well. Errors
// as with Keyring.Check.
func (s *Sealer) SealValue(raw []byte) ([]byte, error) {
	kind, text := byte(tokenText), ""
	if json.Unmarshal(raw, &text) != nil || len(raw) == 0 || bytes.TrimSpace(raw)[0] != '"' {
		kind, text = tokenJSON, string(raw)
	}
	token, err := s.keys.token(kind, text)
	if err != nil {
		return nil, err
	}
	return []byte(quote(token)), nil
}

// OpenJSON opens sealed values, and makes them known to the execution. CodeInternal when a token was changed, or its
// key is missing.
func (s *Sealer) OpenJSON(execution string, raw []byte) ([]byte, error) {
	if !Sealed(raw) { // nearly always
		return raw, nil
	}
	return s.openJSON(execution, raw)
}

func (s *Sealer) openJSON(execution string, raw []byte) (_ []byte, err error) {
	out := rewrite(raw, func(text string) (string, bool) {
		if err != nil || !strings.Contains(text, tokenHead) {
			return "", false
		}
		fresh, other, oerr := s.openText(execution, text)
		if err = oerr; !other {
			fresh = quote(fresh)
		}
		return fresh, true
	}, func(string) (string, bool) { return "", false })
	return out, err
}

// openText opens the tokens of a text; other says that it is one token, for a value that is no string.
func (s *Sealer) openText(execution, text string) (fresh string, other bool, err error) {
	fresh = eachToken(text, func(body string) (string, error) {
		kind, value, err := s.keys.untoken(body)
		if err != nil {
			return "", err
		}
		other = other || kind == tokenJSON
		if value != tokenHead {
			s.redact.take(execution, value, false)
		}
		return value, nil
	}, &err)
	return fresh, other, err
}
