package access

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
)

// maxCookie is the size of a cookie that browsers are sure to keep, in bytes.
const maxCookie = 4000

var errSeal = errors.New("the cookie is not one of this server")

// sealer encrypts values of cookies with AES-256-GCM, so that nobody can read or change them. A value for one purpose
// is of no use for another.
type sealer struct {
	aead cipher.AEAD
	mark string // of the key, for names of cookies: servers at one host with other ports get each other's cookies
}

// newSealer takes a key of 32 bytes.
func newSealer(key []byte) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("cookie "), key...))
	return &sealer{aead: aead, mark: hex.EncodeToString(sum[:4])}, nil
}

func (s *sealer) name(purpose string) string { return "stepwell_" + purpose + "_" + s.mark }

func (s *sealer) seal(purpose string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	rand.Read(nonce) // never fails
	text := base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, plain, []byte(purpose)))
	if len(text) > maxCookie {
		return "", errors.New("the cookie is too large")
	}
	return text, nil
}

func (s *sealer) open(purpose, text string, v any) error {
	if len(text) > maxCookie {
		return errSeal
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(sealed) < s.aead.NonceSize() {
		return errSeal
	}
	plain, err := s.aead.Open(nil, sealed[:s.aead.NonceSize()], sealed[s.aead.NonceSize():], []byte(purpose))
	if err != nil || json.Unmarshal(plain, v) != nil {
		return errSeal
	}
	return nil
}
