package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stepwell/stepwell"
)

// keySize is the length of a master key in bytes.
const keySize = 32

const (
	envelopeVersion = 1
	idSize          = 4
	nonceSize       = 12
	tagSize         = 16
	wrappedSize     = nonceSize + keySize + tagSize
)

// Keyring holds the master keys: the first one seals, all of them open. They never change. It may be used by any
// goroutine.
type Keyring struct {
	keys atomic.Pointer[[]masterKey]

	reading sync.Mutex
	read    func() (*Keyring, error) // of one whose keys are read when they are needed (LateKeyring)
}

// masterKey is a key with its derived values.
type masterKey struct {
	id     [idSize]byte
	wrap   cipher.AEAD // of data keys
	token  cipher.AEAD // of sealed tokens
	nonce  []byte      // key of the nonces of sealed tokens
	digest []byte      // key of digests, while there is no better one (Guard.Load)
}

// NewKeyring makes a keyring of keys of 32 bytes, the sealing one first. CodeInvalid.
func NewKeyring(keys ...[]byte) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "no master key is given"}
	}
	var made []masterKey
	for i, key := range keys {
		if len(key) != keySize {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("master key %d has %d bytes instead of %d", i+1, len(key), keySize),
				Hint: "openssl rand -base64 32 makes one"}
		}
		k, err := newMasterKey(key)
		if err != nil {
			return nil, err
		}
		made = append(made, k)
	}
	ring := &Keyring{}
	ring.keys.Store(&made)
	return ring, nil
}

// Check reads the keys, if that has not been done. Errors as with OpenKeyring.
func (r *Keyring) Check() error {
	_, err := r.ready()
	return err
}

// ready returns the keys. A failed read is retried the next time.
func (r *Keyring) ready() ([]masterKey, error) {
	if keys := r.keys.Load(); keys != nil {
		return *keys, nil
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	if keys := r.keys.Load(); keys != nil {
		return *keys, nil
	}
	from, err := r.read()
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	r.keys.Store(from.keys.Load())
	return *r.keys.Load(), nil
}

func newMasterKey(key []byte) (k masterKey, err error) {
	sum := sha256.Sum256(append([]byte("stepwell key id\x00"), key...))
	copy(k.id[:], sum[:])
	for _, part := range []struct {
		use string
		aes *cipher.AEAD
	}{{"stepwell data keys", &k.wrap}, {"stepwell tokens", &k.token}} {
		sub, err := hkdf.Key(sha256.New, key, nil, part.use, keySize)
		if err != nil {
			return k, err
		}
		if *part.aes, err = newGCM(sub); err != nil {
			return k, err
		}
	}
	if k.nonce, err = hkdf.Key(sha256.New, key, nil, "stepwell token nonces", keySize); err != nil {
		return k, err
	}
	k.digest, err = hkdf.Key(sha256.New, key, nil, "stepwell digests", keySize)
	return k, err
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// ParseKeys reads master keys as people write them: base64 or hexadecimal, one per line or with commas between
// them; lines that begin with # are comments. CodeInvalid, without showing the text.
func ParseKeys(text string) (*Keyring, error) {
	var keys [][]byte
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		for one := range strings.SplitSeq(line, ",") {
			key, ok := parseKey(strings.TrimSpace(one))
			if !ok {
				return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("master key %d is not readable", len(keys)+1),
					Hint: "32 bytes as base64 or hexadecimal: openssl rand -base64 32"}
			}
			keys = append(keys, key)
		}
	}
	return NewKeyring(keys...)
}

func parseKey(text string) ([]byte, bool) {
	if key, err := hex.DecodeString(text); err == nil && len(key) == keySize {
		return key, true
	}
	plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	key, err := base64.RawStdEncoding.DecodeString(plain)
	return key, err == nil && len(key) == keySize
}

// Seal encrypts a value with a data key of its own, which is wrapped by the first master key. Open needs the same label
// (such as "secret/NAME"), so that sealed values cannot be exchanged for each other.
func (r *Keyring) Seal(value []byte, what string) ([]byte, error) {
	keys, err := r.ready()
	if err != nil {
		return nil, err
	}
	k := &keys[0]
	var data [keySize]byte
	rand.Read(data[:]) // never fails
	inner, err := newGCM(data[:])
	if err != nil {
		return nil, err
	}
	out := append([]byte{envelopeVersion}, k.id[:]...)
	out = appendSealed(out, k.wrap, data[:], "key of "+what)
	return appendSealed(out, inner, value, what), nil
}

func appendSealed(out []byte, aead cipher.AEAD, plain []byte, what string) []byte {
	var nonce [nonceSize]byte
	rand.Read(nonce[:])
	out = append(out, nonce[:]...)
	return aead.Seal(out, nonce[:], plain, []byte(what))
}

// Open decrypts a value of Seal. Errors as with Check, and CodeInternal when the key is not in the ring, or the value
// is damaged, changed, or has another label.
func (r *Keyring) Open(sealed []byte, what string) ([]byte, error) {
	head := 1 + idSize
	if len(sealed) < head+wrappedSize+nonceSize+tagSize || sealed[0] != envelopeVersion {
		return nil, damaged(what)
	}
	k, err := r.find(sealed[1:head])
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, wrongKey(what)
	}
	body := sealed[head:]
	data, err := k.wrap.Open(nil, body[:nonceSize], body[nonceSize:wrappedSize], []byte("key of "+what))
	if err != nil {
		return nil, damaged(what)
	}
	inner, err := newGCM(data)
	if err != nil {
		return nil, err
	}
	body = body[wrappedSize:]
	value, err := inner.Open(nil, body[:nonceSize], body[nonceSize:], []byte(what))
	if err != nil {
		return nil, damaged(what)
	}
	return value, nil
}

// Current reports whether a sealed value was sealed with the first key. It was not when the keys cannot be read.
func (r *Keyring) Current(sealed []byte) bool {
	keys, err := r.ready()
	return err == nil && len(sealed) > idSize && string(sealed[1:1+idSize]) == string(keys[0].id[:])
}

// find gives nil when there is no such key.
func (r *Keyring) find(id []byte) (*masterKey, error) {
	keys, err := r.ready()
	for i := range keys {
		if string(keys[i].id[:]) == string(id) {
			return &keys[i], nil
		}
	}
	return nil, err
}

func damaged(what string) error {
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: what + " is damaged or was changed", Hint: "set it again, or restore the database from a copy"}
}

func wrongKey(what string) error {
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: what + " was sealed with a master key that is not here",
		Hint: "put the former key behind the present one: in the key file, or in STEPWELL_SECRETS_KEY"}
}
